"""Who is told: Prometheus scrapes through a restart, the webhook hears of it exactly once."""

from __future__ import annotations

import json

import pytest

from .driver import FAST_POLICY, NAME, Daemon, cluster, deployment
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
