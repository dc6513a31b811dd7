"""Who is told: Prometheus scrapes through a restart, the webhook hears of it exactly once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import outer
from .commands import run, wait_for
from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon
from .faults import kill

RECEIVER = """
import http.server, pathlib, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("/tmp/hooks.jsonl", "ab") as f: f.write(body.strip() + b"\\n")
        self.send_response(204); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", 9099), Hook).serve_forever()
"""


@pytest.fixture
def hooked(fast: Daemon) -> Daemon:
    """The daemon with a webhook to a real receiver on the head."""
    fast.head.run(["rm", "-f", "/tmp/hooks.jsonl"])
    fast.head.run(["systemd-run", "--unit=hook-receiver", "--collect", "python3", "-c", RECEIVER])
    fast.configure(
        {
            "sparkd.yaml": cluster(FAST_POLICY, {"webhook": {"url": "http://127.0.0.1:9099/hook"}}),
            f"deployments/{NAME}.yaml": deployment(),
        }
    )
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    return fast


def hooks(daemon: Daemon) -> list[dict[str, object]]:
    text = daemon.head.run(["cat", "/tmp/hooks.jsonl"], check=False).stdout
    return [json.loads(line) for line in text.splitlines()]


def test_the_webhook_hears_once_of_down_and_once_of_recovered(hooked: Daemon) -> None:
    before = hooked.start()
    kill(hooked.worker, hooked.engine_pid(1))
    hooked.wait_serving(after=before["generation"])
    hooked.wait("both notices", lambda one: len(hooks(hooked)) >= 2, 30)
    kinds = [hook["kind"] for hook in hooks(hooked)]
    assert kinds == ["down", "recovered"]
    assert hooks(hooked)[1]["outage_s"]
    hooked.head.run(["systemctl", "stop", "hook-receiver.service"], check=False)


SCRAPE = """\
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
  - job_name: sparkd
    static_configs: [{targets: ["10.77.0.11:9477"]}]
"""


@pytest.fixture
def prometheus(fast: Daemon, tmp_path: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """A real Prometheus on this machine's side of the lab, scraping the head; called with a query it gives the result."""
    listening = cluster(FAST_POLICY) + "http: {listen: '0.0.0.0:9477'}\n"
    fast.configure({"sparkd.yaml": listening, f"deployments/{NAME}.yaml": deployment()})
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    (tmp_path / "prometheus.yml").write_text(SCRAPE)
    argv = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    server = subprocess.Popen(
        outer.bench([*argv, "--web.listen-address=10.77.0.1:9090"]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def query(text: str) -> list[dict[str, Any]]:
        url = "http://10.77.0.1:9090/api/v1/query"
        done = run(outer.bench(["curl", "-sS", "-m", "5", "-G", "--data-urlencode", f"query={text}", url]), check=False)
        return list(json.loads(done.stdout)["data"]["result"]) if done.returncode == 0 and done.stdout else []

    try:
        yield query
    finally:
        server.terminate()
        server.wait(30)


def test_a_real_prometheus_scrapes_through_a_group_restart(
    fast: Daemon, prometheus: Callable[[str], list[dict[str, Any]]]
) -> None:
    before = fast.start()
    wait_for(
        "the first scrapes", lambda: bool(prometheus(f'sparkd_deployment_serving{{deployment="{NAME}"}} == 1')), 30
    )
    kill(fast.worker, fast.engine_pid(1))
    fast.wait_serving(after=before["generation"])
    wait_for(
        "the restart to be seen",
        lambda: bool(prometheus(f'sparkd_group_starts_total{{deployment="{NAME}",cause="crash"}} == 1')),
        30,
    )
    wait_for("serving to be seen", lambda: bool(prometheus("sparkd_deployment_serving == 1")), 30)
    assert prometheus("min_over_time(sparkd_deployment_serving[5m]) == 0"), "Prometheus never saw it down"
    assert not prometheus("min_over_time(up[5m]) == 0"), "a scrape failed during the restart"
    page = fast.head.run(["curl", "-sS", "-m", "5", "http://127.0.0.1:9477/metrics"]).stdout
    checked = run(["promtool", "check", "metrics"], input=page, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
