"""What starts something beside sparkd, on real nodes: the units of the first report, their loop, and what ends it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .commands import wait_for
from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon
from .faults import power_cut, reboot
from .layout import ENGINE_IMAGE
from .nodes import Node

UNITS = ("vllm-ds4-head.service", "vllm-ds4-worker.service")
SCRIPTS = ("/workspace/vllm-head-090.sh", "/workspace/vllm-worker-090.sh")
CONTAINER = "vllm_ds4"
# The unit of the first report; its pause is cut from 30 s to 5 s, which its start limit cannot reach either.
UNIT = """\
[Unit]
Description=DeepSeek V4 Flash (vLLM, throughput profile)
After=docker.service network-online.target
Requires=docker.service

[Service]
Type=simple
User=root
ExecStartPre=/bin/bash -c 'sync; rm -f /dev/shm/psm_none /dev/shm/sem.mp-none 2>/dev/null; true'
ExecStartPre=/usr/bin/docker start vllm_ds4
ExecStart=/usr/bin/docker exec vllm_ds4 bash {script}
ExecStop=/usr/bin/docker exec vllm_ds4 bash -c 'pkill -9 -f "vllm serve" || true'
Restart=on-failure
RestartSec=5
KillMode=mixed

[Install]
WantedBy=multi-user.target
"""

Row = dict[str, Any]


def rows(daemon: Daemon, code: str) -> list[Row]:
    """What this check says beside `ok`, by node; asked again while a node cannot be read yet."""
    found: list[Row] = []

    def known() -> bool:
        said = json.loads(daemon.ctl("check", NAME, "--json", check=False).stdout)["checks"]
        found[:] = [row for row in said if row["code"] == code]
        assert found
        return all(row["status"] != "unknown" for row in found)

    wait_for(f"{code} to be read on both nodes", known, 30, every_s=1.0)
    return sorted((row for row in found if row["status"] != "ok"), key=lambda row: str(row["node"]))


@pytest.fixture
def legacy(fast: Daemon) -> Iterator[Daemon]:
    """Both nodes as the first report left them: a container made anew, and enabled units that name a script of the old one."""
    for node, unit, script in zip(fast.lab.nodes, UNITS, SCRIPTS, strict=True):
        node.docker("run", "-d", "--name", CONTAINER, "--restart", "unless-stopped", ENGINE_IMAGE, "sleep", "infinity")
        node.write(f"/etc/systemd/system/{unit}", UNIT.format(script=script))
        node.run(["systemctl", "daemon-reload"])
        node.run(["systemctl", "enable", "--quiet", unit])
    yield fast
    for node, unit in zip(fast.lab.nodes, UNITS, strict=True):
        node.run(["systemctl", "disable", "--quiet", "--now", unit], check=False)
        node.run(["rm", "-rf", f"/etc/systemd/system/{unit}", f"/etc/systemd/system/{unit}.d"])
        node.run(["systemctl", "daemon-reload"])
        node.run(["systemctl", "reset-failed", unit], check=False)


def restarts(node: Node, unit: str) -> int:
    return int(node.text(["systemctl", "show", "-P", "NRestarts", unit]))


def test_the_ghost_script_is_found_before_the_first_start_and_holds_it(legacy: Daemon) -> None:
    found = rows(legacy, "ghost-path")
    assert [(row["node"], row["status"]) for row in found] == [("spark1", "fail"), ("spark2", "fail")]
    for row, unit, script in zip(found, UNITS, SCRIPTS, strict=True):
        assert unit in row["text"]
        assert script in row["text"]
        assert row["node"] in row["text"]
        assert row["fix"].startswith(f"on {row['node']}: systemctl disable --now {unit}")
        assert any(f"/etc/systemd/system/{unit}" in seen for seen in row["evidence"])
    files = {"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": deployment()}
    legacy.configure(files)
    legacy.head.run(["systemctl", "restart", "sparkd.service"])
    legacy.ctl("start", NAME)
    held = legacy.wait("the hold", lambda one: one["phase"] == "held", 60)
    assert SCRIPTS[0] in held["hold"]["text"]
    assert held["generation"] == 0
    for node, unit in zip(legacy.lab.nodes, UNITS, strict=True):
        node.run(["systemctl", "disable", "--quiet", "--now", unit])
    assert rows(legacy, "ghost-path") == []
    legacy.wait_serving()  # the hold ended by itself


def test_a_drop_in_counts_as_systemd_merges_it(legacy: Daemon) -> None:
    """The repair of the first report: a drop-in that names the script which is there."""
    head = legacy.head
    head.docker("exec", CONTAINER, "bash", "-c", "mkdir -p /workspace; echo true > /workspace/vllm-head.sh")
    override = "[Service]\nExecStart=\nExecStart=/usr/bin/docker exec vllm_ds4 bash /workspace/vllm-head.sh\n"
    head.write(f"/etc/systemd/system/{UNITS[0]}.d/override.conf", override)
    head.run(["systemctl", "daemon-reload"])
    first, second = rows(legacy, "ghost-path")
    assert (first["node"], first["status"]) == ("spark1", "warn")
    assert "writable layer" in first["text"]
    assert "/workspace/vllm-head.sh" in first["text"]
    assert any("override.conf" in seen for seen in first["evidence"])
    assert (second["node"], second["status"]) == ("spark2", "fail")


def test_the_loop_is_counted_and_ends_with_the_unit(legacy: Daemon) -> None:
    head, unit = legacy.head, UNITS[0]
    # Before the first start: only that its limit could never end a loop.
    assert [(row["status"], "RestartSec=5" in row["text"]) for row in rows(legacy, "exit-loop")] == [("warn", True)] * 2
    head.run(["systemctl", "start", "--no-block", unit])
    wait_for("three restarts", lambda: restarts(head, unit) >= 3, 60)
    (looping,) = [row for row in rows(legacy, "exit-loop") if row["status"] == "fail"]
    assert looping["node"] == "spark1"
    counted = int(re.search(r": (\d+) restarts", looping["text"])[1])  # type: ignore[index]
    assert 3 <= counted <= restarts(head, unit)
    assert "cannot be reached" in looping["text"]
    assert f"systemctl disable --now {unit}" in looping["fix"]
    for node, name in zip(legacy.lab.nodes, UNITS, strict=True):
        node.run(["systemctl", "disable", "--quiet", "--now", name])
    assert rows(legacy, "exit-loop") == []


def test_a_container_that_loops_is_found_also_while_it_reads_running(fast: Daemon) -> None:
    worker = fast.worker
    argv = ["--restart", "on-failure", ENGINE_IMAGE, "bash", "/workspace/vllm-head-090.sh"]
    worker.docker("run", "-d", "--name", "vllm_old", *argv)
    count = ("inspect", "-f", "{{.RestartCount}}", "vllm_old")
    wait_for("four restarts", lambda: int(worker.docker(*count).stdout) >= 4, 60)
    (looping,) = rows(fast, "exit-loop")
    assert (looping["node"], looping["status"]) == ("spark2", "fail")
    assert "vllm_old" in looping["text"]
    assert [row["node"] for row in rows(fast, "ghost-path")] == ["spark2"]
    worker.docker("rm", "-f", "vllm_old")
    assert rows(fast, "exit-loop") == []
    assert rows(fast, "ghost-path") == []


def test_another_unit_for_the_same_port_is_a_second_supervisor(legacy: Daemon) -> None:
    """A launch script on the node, which the unit only names; and the policy of a container that only waits."""
    worker, unit = legacy.worker, UNITS[1]
    worker.write(
        "/opt/launch/start.sh", "#!/bin/bash\nexec vllm serve /models/x --port 8000 \\\n  --master-port 29501\n", 0o755
    )
    worker.write(
        f"/etc/systemd/system/{unit}",
        UNIT.format(script="x").replace("/usr/bin/docker exec vllm_ds4 bash x", "/opt/launch/start.sh"),
    )
    worker.run(["systemctl", "daemon-reload"])
    by_node: dict[str, list[Row]] = {}
    for row in rows(legacy, "second-supervisor"):
        by_node.setdefault(row["node"], []).append(row)
    (strong,) = [row for row in by_node["spark2"] if row["status"] == "fail"]
    assert unit in strong["text"]
    assert "port 8000, port 29501" in strong["text"]
    assert {row["status"] for row in by_node["spark1"]} == {"warn"}  # nothing there says which engine it is
    assert any("unless-stopped" in row["text"] and CONTAINER in row["text"] for row in by_node["spark1"])
    for node, name in zip(legacy.lab.nodes, UNITS, strict=True):
        node.run(["systemctl", "disable", "--quiet", "--now", name])
        node.docker("update", "--restart=no", CONTAINER)
    assert rows(legacy, "second-supervisor") == []
    worker.run(["rm", "-r", "/opt/launch"])


def test_units_of_a_person_are_read_where_they_linger(fast: Daemon) -> None:
    head = fast.head
    folder = "/home/sparkd/.config/systemd/user"
    head.write(f"{folder}/sglang.service", "[Service]\nExecStart=%h/gone/start-sglang.sh --port 30000\n")
    head.run(["mkdir", "-p", f"{folder}/default.target.wants"])
    head.run(["ln", "-s", f"{folder}/sglang.service", f"{folder}/default.target.wants/sglang.service"])
    try:
        (ghost,) = rows(fast, "ghost-path")
        assert "/home/sparkd/gone/start-sglang.sh" in ghost["text"]
        assert "as sparkd: systemctl --user disable --now sglang.service" in ghost["fix"]
    finally:
        head.run(["rm", "-r", "/home/sparkd/.config/systemd"])
    assert rows(fast, "ghost-path") == []


def test_a_power_cut_is_told_from_a_reboot(fast: Daemon) -> None:
    """By the end of the journal before it, read by the node service inside its sandbox."""
    worker = fast.worker

    def found() -> str:
        said = json.loads(fast.ctl("check", NAME, "--json", check=False).stdout)["checks"]
        return next(
            f"{row['status']}: {row['text']}" for row in said if (row["code"], row["node"]) == ("boot", "spark2")
        )

    power_cut(worker).undo()
    wait_for(
        "the power cut to be told", lambda: found().startswith("warn: ") and "power cut" in found(), 60, every_s=1.0
    )
    reboot(worker)
    wait_for("an orderly end", lambda: found().startswith("ok"), 60, every_s=1.0)
