"""The exporter's page, judged by Prometheus' own tools and scraped by a real one."""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from sparkd.model.machine import Boot, Memory
from sparkd.model.view import ClusterView
from sparkd.reporting.copies import Shown
from sparkd.reporting.exporter import Exporter
from sparkd.reporting.metrics import Counters

from ..waiting import until
from .api_world import Daemon, a_view, running

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
DEPLOY = Path(__file__).parents[3] / "deploy" / "prometheus"
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")

NAMES = {
    "sparkd_build": ("info", {"version"}),
    "sparkd_deployment_phase": ("gauge", {"deployment", "phase"}),
    "sparkd_deployment_wanted": ("gauge", {"deployment"}),
    "sparkd_deployment_serving": ("gauge", {"deployment"}),
    "sparkd_deployment_generation": ("gauge", {"deployment"}),
    "sparkd_deployment_held": ("gauge", {"deployment"}),
    "sparkd_deployment_planned": ("gauge", {"deployment"}),
    "sparkd_group_starts": ("counter", {"deployment", "cause"}),
    "sparkd_failures": ("counter", {"deployment", "class", "signature"}),
    "sparkd_outage_seconds": ("counter", {"deployment"}),
    "sparkd_phase_duration_seconds": ("histogram", {"deployment", "phase"}),
    "sparkd_start_stage_seconds": ("histogram", {"deployment", "stage"}),
    "sparkd_rank_up": ("gauge", {"deployment", "rank", "node"}),
    "sparkd_rank_evidence_age_seconds": ("gauge", {"deployment", "rank", "node"}),
    "sparkd_node_reachable": ("gauge", {"node"}),
    "sparkd_node_maintenance": ("gauge", {"node"}),
    "sparkd_node_boot_time_seconds": ("gauge", {"node"}),
    "sparkd_node_memory_bytes": ("gauge", {"node", "kind"}),
    "sparkd_node_memory_alert": ("gauge", {"node", "kind"}),
    "sparkd_check_status": ("gauge", {"deployment", "node", "check"}),
    "sparkd_drift_findings": ("gauge", {"deployment", "severity"}),
    "sparkd_canary_seconds": ("histogram", {"deployment"}),
    "sparkd_canary_tokens_per_second": ("gauge", {"deployment"}),
    "sparkd_engine_requests": ("gauge", {"deployment", "state"}),
    "sparkd_engine_tokens": ("counter", {"deployment", "kind"}),
    "sparkd_engine_kv_cache_usage_ratio": ("gauge", {"deployment"}),
    "sparkd_spec_decode_acceptance_ratio": ("gauge", {"deployment", "position"}),
    "sparkd_snapshot_age_seconds": ("gauge", set[str]()),
    "sparkd_loop_duration_seconds": ("histogram", set[str]()),
    "sparkd_notifications": ("counter", {"channel", "outcome"}),
}


def counted() -> Counters:
    one = Counters()
    one.know("ds4-flash")
    one.started("ds4-flash", "crash")
    one.failed("ds4-flash", "transient", "rank-gone")
    one.outage("ds4-flash", 42.5)
    one.phase("ds4-flash", "warmup", 3.0)
    one.stage("ds4-flash", "load", 200.0)
    one.canary("ds4-flash", 0.4, 37.1)
    one.loop(0.05)
    one.notified("webhook", "sent")
    return one


def samples(text: str) -> dict[str, float]:
    return {
        f"{one.name}{json.dumps(one.labels, sort_keys=True)}": one.value
        for family in plain(text)
        for one in family.samples
    }


def test_every_metric_of_the_interface_has_its_type_and_labels() -> None:
    body, content_type = Exporter(Shown(a_view), counted()).page(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    found = {one.name: one for one in openmetrics(body.decode())}  # type: ignore[no-untyped-call]
    assert set(found) == set(NAMES)
    for name, (kind, labels) in NAMES.items():
        assert found[name].type == kind, name
        assert {label for one in found[name].samples for label in one.labels} - {"le"} == labels, name
        assert found[name].documentation.endswith(".")


def test_values_are_what_the_view_says() -> None:
    body, content_type = Exporter(Shown(a_view), counted()).page("text/plain")
    assert content_type.startswith("text/plain")
    found = samples(body.decode())
    assert found['sparkd_deployment_serving{"deployment": "ds4-flash"}'] == 1
    assert found['sparkd_deployment_serving{"deployment": "qwen"}'] == 0
    assert found['sparkd_deployment_phase{"deployment": "qwen", "phase": "backoff"}'] == 1
    assert sum(value for name, value in found.items() if name.startswith("sparkd_deployment_phase{")) == 3
    assert found['sparkd_deployment_held{"deployment": "broken"}'] == 1
    assert found['sparkd_rank_up{"deployment": "qwen", "node": "spark1", "rank": "0"}'] == 0
    assert found['sparkd_engine_tokens_total{"deployment": "ds4-flash", "kind": "generation"}'] == 2000
    assert found['sparkd_group_starts_total{"cause": "crash", "deployment": "ds4-flash"}'] == 1
    assert found['sparkd_group_starts_total{"cause": "boot", "deployment": "ds4-flash"}'] == 0
    assert found['sparkd_outage_seconds_total{"deployment": "ds4-flash"}'] == 42.5
    assert found['sparkd_check_status{"check": "ghost-path", "deployment": "ds4-flash", "node": "spark2"}'] == 2
    assert found['sparkd_check_status{"check": "ghost-path", "deployment": "ds4-flash", "node": "spark1"}'] == 0
    assert found['sparkd_check_status{"check": "flags", "deployment": "ds4-flash", "node": ""}'] == 1
    assert found['sparkd_drift_findings{"deployment": "ds4-flash", "severity": "breaks"}'] == 1
    assert found['sparkd_drift_findings{"deployment": "ds4-flash", "severity": "slows"}'] == 0
    assert not any(name.startswith("sparkd_drift") and "qwen" in name for name in found), "not compared is not 0"
    assert not any("_created" in name for name in found)


def test_labels_never_come_from_the_text_of_logs() -> None:
    one = Counters()
    for number in range(1000):
        one.failed("ds4-flash", "transient", f"signature-{number}")
    one.failed("ds4-flash", "made up", "free text \n from a log")
    one.started("ds4-flash", "whim")
    text = Exporter(Shown(a_view), one).page("")[0].decode()
    assert text.count("sparkd_failures_total{") <= 202
    assert "free text" not in text
    assert 'class="other"' in text
    assert 'cause="other"' in text


def test_f48_one_part_that_fails_does_not_take_the_page_down() -> None:
    """prometheus/client_python#84: exactly in the middle of the incident."""

    class Broken(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("a bug")

    def view() -> ClusterView:
        one = a_view()
        assert one.snapshot is not None
        object.__setattr__(one.snapshot, "engines", Broken())
        return one

    text = Exporter(Shown(view), counted()).page("")[0].decode()
    assert "sparkd_deployment_serving" in text
    assert "sparkd_engine_requests" not in text


@pytest.mark.parametrize("figure", [10**400, math.nan], ids=["huge", "nan"])
def test_a_node_with_figures_that_are_none_costs_no_counter(figure: float) -> None:
    """A status that cannot be made took the whole page with it."""
    view, counters = a_view(), Counters()
    assert view.snapshot is not None
    seen = view.snapshot.nodes["spark1"]
    assert isinstance(seen.boot, Boot)
    odd = replace(seen, memory=Memory(*[10**400] * 6), boot=replace(seen.boot, uptime_s=figure))
    view = replace(view, snapshot=replace(view.snapshot, nodes={**view.snapshot.nodes, "spark1": odd}))
    counters.started("ds4-flash", "boot")
    page = Exporter(Shown(lambda: view), counters).page("")[0].decode()
    assert 'sparkd_group_starts_total{cause="boot",deployment="ds4-flash"} 1.0' in page


def test_before_the_first_look_the_page_is_there() -> None:
    def view() -> ClusterView:
        one = a_view()
        object.__setattr__(one, "snapshot", None)
        return one

    found = samples(Exporter(Shown(view), Counters()).page("")[0].decode())
    assert found['sparkd_node_reachable{"node": "spark1"}'] == 0
    assert not any(name.startswith("sparkd_rank_up") for name in found)


# ---------------------------------------------------------------------------------------------------- real neighbours


def promtool(*argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PROMTOOL), *argv], check=False, capture_output=True, timeout=60, **more)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)")
def test_promtool_finds_nothing_to_say_about_the_page() -> None:
    page = Exporter(Shown(a_view), counted()).page("")[0]
    checked = promtool("check", "metrics", input=page)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


RULES = """
rule_files: [sparkd.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'sparkd_deployment_wanted{deployment="ds4"}', values: '1+0x20'}
      - {series: 'sparkd_deployment_serving{deployment="ds4"}', values: '1x4 0x15'}
      - {series: 'sparkd_deployment_held{deployment="ds4"}', values: '0x9 1x10'}
      - {series: 'sparkd_group_starts_total{deployment="ds4",cause="crash"}', values: '0x4 1 2 3x12'}
      - {series: 'sparkd_node_reachable{node="spark2"}', values: '1x4 0x15'}
      - {series: 'sparkd_deployment_wanted{deployment="planned"}', values: '1+0x20'}
      - {series: 'sparkd_deployment_serving{deployment="planned"}', values: '0x20'}
      - {series: 'sparkd_deployment_held{deployment="planned"}', values: '1x20'}
      - {series: 'sparkd_deployment_planned{deployment="planned"}', values: '1x20'}
      - {series: 'sparkd_node_reachable{node="spark3"}', values: '0x20'}
      - {series: 'sparkd_node_maintenance{node="spark3"}', values: '1x20'}
      - {series: 'sparkd_snapshot_age_seconds', values: '2x9 90x10'}
      - {series: 'sparkd_node_memory_bytes{node="spark1",kind="total"}', values: '100x20'}
      - {series: 'sparkd_node_memory_bytes{node="spark1",kind="available"}', values: '30x9 1x10'}
      - {series: 'up{job="sparkd",instance="a"}', values: '1x9 0x10'}
    alert_rule_test:
      - {eval_time: 4m, alertname: SparkdDeploymentDown, exp_alerts: []}
      - eval_time: 8m
        alertname: SparkdDeploymentDown
        exp_alerts: [{exp_labels: {severity: critical, deployment: ds4}, exp_annotations: {
          summary: "ds4 is wanted up and does not serve",
          description: "sparkd is at it, unless it is held. See `sparkd ctl status` and `sparkd ctl why ds4`."}}]
      - {eval_time: 8m, alertname: SparkdDeploymentHeld, exp_alerts: []}
      - eval_time: 12m
        alertname: SparkdDeploymentHeld
        exp_alerts: [{exp_labels: {severity: critical, deployment: ds4}, exp_annotations: {
          summary: "sparkd has given up starting ds4",
          description: "`sparkd ctl status` names the fact that stops it and the command that fixes it."}}]
      - {eval_time: 5m, alertname: SparkdDeploymentRestartsOften, exp_alerts: []}
      - {eval_time: 8m, alertname: SparkdNodeUnknown, exp_alerts: []}
      - eval_time: 11m
        alertname: SparkdNodeUnknown
        exp_alerts: [{exp_labels: {severity: warning, node: spark2}, exp_annotations: {
          summary: "spark2 could not be asked for 5 minutes",
          description: "Unknown is not down: ranks there may serve on. See `sparkd ctl nodes`."}}]
      - eval_time: 12m
        alertname: SparkdLoopStuck
        exp_alerts: [{exp_labels: {severity: critical}, exp_annotations: {
          summary: "sparkd has not looked for 1m 30s",
          description: "All other alerts are that old. See `journalctl -u sparkd`."}}]
      - eval_time: 16m
        alertname: SparkdMemoryNearlyGone
        exp_alerts: [{exp_labels: {severity: warning, node: spark1}, exp_annotations: {
          summary: "spark1 has 1% of its memory left",
          description: "On unified memory the next large request may end the engine."}}]
      - eval_time: 14m
        alertname: SparkdAbsent
        exp_alerts: [{exp_labels: {severity: critical, job: sparkd, instance: a}, exp_annotations: {
          summary: "sparkd does not answer Prometheus",
          description: "The engines go on without it, unwatched. See `systemctl status sparkd`."}}]
"""


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)")
def test_the_alert_rules_fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "sparkd.rules.yml", tmp_path)
    (tmp_path / "test.yml").write_text(RULES)
    for argv in (["check", "rules", "sparkd.rules.yml"], ["test", "rules", "test.yml"]):
        ran = promtool(*argv, cwd=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert promtool("check", "config", str(DEPLOY / "scrape.yml")).returncode == 0


def test_the_rules_ask_only_for_metrics_that_exist() -> None:
    text = (DEPLOY / "sparkd.rules.yml").read_text()
    asked = set(re.findall(r"\bsparkd_\w+", text))
    page = Exporter(Shown(a_view), counted()).page("")[0].decode()
    assert asked
    assert all(f"\n{name}" in page for name in asked), asked


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
async def test_a_real_prometheus_scrapes_it(tmp_path: Path) -> None:
    """Serving, then not: Prometheus sees both, and never a failed scrape."""
    serving = True

    def view() -> ClusterView:
        one = a_view()
        if not serving:
            object.__setattr__(one, "states", {})
        return one

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with running(Daemon(look=view)) as place:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {"job_name": "sparkd", "static_configs": [{"targets": [f"127.0.0.1:{place.port}"]}]},
            ],
            "rule_files": [str(DEPLOY / "sparkd.rules.yml")],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        process = await anyio.open_process(
            [
                str(PROMETHEUS),
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

                async def value(query: str) -> float | None:
                    try:
                        async with session.get(f"/api/v1/query?query={urllib.parse.quote(query)}") as answer:
                            found = (await answer.json())["data"]["result"] if answer.status == 200 else []
                    except aiohttp.ClientConnectionError:
                        return None  # it is still starting
                    return float(found[0]["value"][1]) if found else None

                async def sees(query: str, wanted: float) -> bool:
                    return await value(query) == wanted

                name = 'sparkd_deployment_serving{deployment="ds4-flash"}'
                await until("it sees that ds4-flash serves", lambda: sees(name, 1), 60)
                serving = False
                await until("it sees that ds4-flash does not", lambda: sees(name, 0), 60)
                assert await value('min_over_time(up{job="sparkd"}[1m])') == 1
                assert await value("sparkd_build_info") == 1
        finally:
            process.terminate()
            with anyio.move_on_after(20, shield=True):
                await process.wait()
            await process.aclose()


async def test_how_fast_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured and printed, not judged; a fifth of a second would mean that something blocks."""
    async with running() as place, place.unix() as session:
        for path in ("/metrics", "/api/v1/status", "/ready/ds4-flash"):
            waits = []
            for _ in range(200):
                began = time.perf_counter()
                async with session.get(path) as answer:
                    await answer.read()
                waits.append(1e3 * (time.perf_counter() - began))
            waits.sort()
            with capsys.disabled():
                print(f"\n{path}: p50 {waits[100]:.1f} ms, p99 {waits[197]:.1f} ms", end="")
            assert waits[100] < 200
