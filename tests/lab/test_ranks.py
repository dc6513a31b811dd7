"""A rank ends, whichever way and on whichever node: exactly one group restart each (acceptance d)."""

from __future__ import annotations

import pytest

from .configured import NAME
from .driver import Daemon, audit, overlaps
from .faults import freeze, kill

WAYS = ("exit-0", "exit-137", "docker-kill", "docker-rm")


def end(daemon: Daemon, rank: int, way: str) -> None:
    node, name = daemon.node_of(rank), daemon.container(rank)
    match way:
        case "exit-0":  # a killed worker process: its parent ends with status 0 (evidence 01)
            kill(node, daemon.engine_pid(rank))
        case "exit-137":
            kill(node, int(node.docker("inspect", "-f", "{{.State.Pid}}", name).stdout))
        case "docker-kill":
            node.docker("kill", name)
        case "docker-rm":
            node.docker("rm", "-f", name)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_f22_one_group_restart_for_every_way_a_rank_ends(serving: Daemon, way: str, rank: int) -> None:
    before = serving.wait_serving()
    starts = len(serving.kinds("starting"))
    end(serving, rank, way)
    after = serving.wait_serving(after=before["generation"])
    assert after["generation"] == before["generation"] + 1
    assert len(serving.kinds("starting")) == starts + 1
    assert after["last_failure"]["generation"] == before["generation"]
    assert after["last_failure"]["outage_s"] > 0
    assert serving.complete()["choices"]
    assert not overlaps(serving)
    audit(serving.history())


def test_a_frozen_worker_is_acted_on_although_health_stays_green(serving: Daemon) -> None:
    before = serving.wait_serving()
    freeze(serving.worker, serving.engine_pid(1))
    after = serving.wait_serving(after=before["generation"])
    assert after["last_failure"]["signature"] == "rank-stuck"
    audit(serving.history())


def test_f21_a_widow_is_found_when_only_its_head_is_gone(serving: Daemon) -> None:
    before = serving.wait_serving()
    serving.head.docker("kill", serving.container(0))
    serving.wait_serving(after=before["generation"])
    leftover = serving.worker.run(["pgrep", "-c", "-f", "^VLLM::Worker"], check=False).stdout.strip()
    assert leftover == "1", "the widowed worker of the earlier generation is still there"


def test_metrics_follow_a_group_restart(serving: Daemon) -> None:
    before = serving.wait_serving()
    kill(serving.worker, serving.engine_pid(1))
    serving.wait_serving(after=before["generation"])
    page = serving.head.run(["curl", "-sS", "-m", "5", "http://127.0.0.1:9477/metrics"]).stdout
    assert f'sparkd_deployment_serving{{deployment="{NAME}"}} 1.0' in page
    assert f'sparkd_group_starts_total{{cause="crash",deployment="{NAME}"}}' in page
    ready = serving.head.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:9477/ready/{NAME}"]
    )
    assert ready.stdout == "200"
