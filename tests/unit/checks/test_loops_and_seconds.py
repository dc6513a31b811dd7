"""exit-loop and second-supervisor: where they speak, and where they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import SPARK1, said, trouble
from unit_world import DS4, IN_CONTAINER, SCRIPT, UNIT, at, runs

from sparkd.checks import exit_loop, second_supervisor
from sparkd.checks.shared.scene import Text
from sparkd.facts.boots import Boots
from sparkd.facts.units import Unit

# ----------------------------------------------------------------------------------------------------------- exit-loop


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        # evidence 14b: the three faces of one loop, and of its end
        ({"active": "activating", "sub": "auto-restart", "exit_code": 127, "restarts": 0}, ["fail"]),
        ({"active": "active", "sub": "running", "exit_code": 0, "restarts": 4, "started_ago_s": 0.4}, ["fail"]),
        ({"active": "activating", "sub": "auto-restart-queued", "exit_code": 1, "restarts": 6}, ["fail"]),
        ({"active": "failed", "sub": "failed", "exit_code": 127, "restarts": 5, "started_ago_s": 900.0}, ["fail"]),
        ({"active": "activating", "sub": "auto-restart", "exit_code": 1, "restarts": 1}, ["warn"]),  # its limit only
        ({"active": "active", "sub": "running", "restarts": 2, "rose": 1, "limit_s": 0.0}, ["fail"]),
        ({"active": "active", "sub": "running", "restarts": 2, "rose": 2, "limit_s": 0.0}, ["fail"]),
        ({"active": "active", "sub": "running", "restarts": 1, "rose": 1, "limit_s": 0.0}, []),  # once is no loop
        ({"active": "active", "sub": "running", "restarts": 4, "started_ago_s": 86400.0}, ["warn"]),
        ({"active": "active", "sub": "running", "restarts": 0, "limit_s": 0.0}, []),  # never gives up, and says so
        ({"active": "active", "sub": "running", "restarts": 0, "restart_s": 1.0}, []),
        ({"active": "inactive", "sub": "dead", "file_state": "disabled"}, []),
        ({"active": "failed", "sub": "failed", "exit_code": 1, "restart": "no", "limit_s": 0.0}, []),
    ],
)
def test_units_that_loop(fields: dict[str, Any], status: list[str]) -> None:
    assert [one.status for one in trouble(exit_loop.CHECK, at(replace(UNIT, **fields)))] == status


def test_a_loop_that_is_over_and_cannot_begin_again_stops_no_start() -> None:
    given_up = replace(UNIT, active="failed", restarts=5, exit_code=1)
    (found,) = trouble(exit_loop.CHECK, at(given_up))
    assert found.status == "fail"
    (found,) = trouble(exit_loop.CHECK, at(replace(given_up, file_state="disabled")))
    assert found.status == "warn"


def test_f28_a_unit_whose_program_was_uninstalled_loops_for_ever() -> None:
    """203/EXEC every two seconds, which never makes five in ten seconds."""
    gone: dict[str, Any] = {
        "exit_code": 203,
        "restart_s": 2.0,
        "active": "activating",
        "sub": "auto-restart",
        "restarts": 4000,
    }
    (found,) = trouble(exit_loop.CHECK, at(replace(UNIT, **gone)))
    assert found.status == "fail"
    assert "exit 203 (what it starts cannot be executed, or is not there)" in found.text
    assert "the limit of 5 in 10 s cannot be reached" in found.text


def test_a_loop_says_how_often_why_and_that_it_never_ends() -> None:
    looping = replace(UNIT, active="activating", sub="auto-restart", exit_code=127, restarts=7, started_ago_s=12.0)
    (found,) = trouble(exit_loop.CHECK, at(looping))
    assert found.text == (
        "vllm-ds4-head.service on spark1 ends and is started again and again: 7 restarts, the last 12 s ago, exit 127 "
        "(what it starts is not there), and the limit of 5 in 10 s cannot be reached, so it never ends"
    )
    assert "journalctl -u vllm-ds4-head.service" in found.fix


def test_a_loop_that_has_nothing_to_do_with_engines_stops_no_start() -> None:
    other = replace(
        UNIT, name="phoenix.service", commands=(), active="activating", sub="auto-restart", exit_code=127, restarts=9
    )
    assert [one.status for one in trouble(exit_loop.CHECK, at(other))] == ["warn"]


@pytest.mark.parametrize(
    ("pause_s", "starts", "within_s", "unreachable"),
    [(5.0, 5, 10.0, True), (2.0, 5, 10.0, True), (1.0, 5, 10.0, False), (30.0, 5, 0.0, False), (30.0, 5, 600.0, False)],
)
def test_f30_limits_that_the_pause_can_never_reach(
    pause_s: float, starts: int, within_s: float, unreachable: bool
) -> None:
    """Evidence 14b: 5 s never trips; 14b3: 1 s trips after 6 s; F28: 2 s never reaches 5 in 10 s."""
    assert replace(UNIT, restart_s=pause_s, limit_starts=starts, limit_s=within_s).limit_unreachable is unreachable


NOW = 1.7e9  # the nodes' clock in check_world


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"state": "restarting", "exit_code": 127, "restarts": 1}, ["fail"]),
        ({"state": "running", "restarts": 7, "started_at": NOW - 3}, ["fail"]),  # evidence 14a: it alternates
        ({"state": "running", "restarts": 7, "started_at": NOW - 86400}, []),
        ({"state": "created", "exit_code": 127}, ["warn"]),
        ({"state": "exited", "exit_code": 1}, []),
        ({"state": "exited", "exit_code": 127, "restarts": 7, "started_at": NOW - 3}, []),
        ({"state": "restarting", "name": "web", "image": "nginx", "restarts": 4}, ["warn"]),
        ({"state": "restarting", "owner": "us"}, []),
    ],
)
def test_containers_that_loop(fields: dict[str, Any], status: list[str]) -> None:
    found = trouble(exit_loop.CHECK, at(there=(replace(DS4, **fields),)))
    assert [one.status for one in found] == status


# --------------------------------------------------------------------------------------------------- second-supervisor


def test_the_unit_of_the_first_report_says_nothing_of_its_own() -> None:
    found = trouble(second_supervisor.CHECK, at(UNIT, answers={Text(SPARK1, IN_CONTAINER, SCRIPT): None}))
    assert [one.status for one in found] == ["warn"]
    assert "starts an engine here as well (" not in found[0].text


def test_its_script_does() -> None:
    text = "#!/bin/bash\nvllm serve /models/x \\\n  --port 8000 --master-port 29501\n"
    (found,) = trouble(second_supervisor.CHECK, at(UNIT, answers={Text(SPARK1, IN_CONTAINER, SCRIPT): text}))
    assert found.status == "fail"
    assert "would start these ranks as well (port 8000, port 29501, the same image)" in found.text


SPARKRUN = runs("/usr/bin/sparkrun", "run", "qwen", name="llm.service")


@pytest.mark.parametrize(
    ("unit", "status"),
    [
        (SPARKRUN, ["warn"]),
        (replace(SPARKRUN, file_state="static", triggered_by=("sparkring-recover.timer",)), ["warn"]),
        (runs("/v/bin/vllm", "serve", "/models/other", "--port", "8001"), ["warn"]),
        (runs("/v/bin/vllm", "serve", "/models/demo", "--port", "8001"), ["fail"]),
        (runs("/v/bin/vllm", "serve", "/models/demo-2", "--port", "80000"), ["warn"]),
        (runs("/opt/go", says=(("/opt/go", "vllm serve --master-port 29501"),)), ["fail"]),
        (runs("/v/bin/vllm", "serve", "x", file_state="disabled", active="inactive"), []),
        (runs("/usr/bin/docker", "compose", "-f", "/opt/vllm/compose.yml", "up", "-d"), ["warn"]),
        (runs("/usr/bin/podman", "start", "vllm"), ["warn"]),
        (runs("/opt/llm/wrapper", says=(("/opt/llm/wrapper", "docker exec vllm serve"),)), ["warn"]),
        (runs("/usr/bin/docker", "compose", "-f", "/opt/grafana/compose.yml", "up", name="grafana.service"), []),
        (runs("/usr/bin/docker", "image", "prune", "-f", name="docker-prune.service"), []),
        (runs("/usr/bin/dockerd", name="docker.service"), []),
        (runs("/usr/bin/node_exporter", "--web.listen-address=:9100", name="node-exporter.service"), []),
    ],
)
def test_units_that_start_engines(unit: Unit, status: list[str]) -> None:
    found = trouble(second_supervisor.CHECK, at(unit, model="/models/demo"))
    assert [one.status for one in found] == status


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"name": "vllm\\x2dhead.service"}, "systemctl disable --now 'vllm\\x2dhead.service'"),
        ({"file_state": "generated", "active": "active"}, "systemctl mask --now vllm-ds4-head.service"),
        (
            {"file_state": "static", "triggered_by": ("vllm.timer",)},
            "systemctl disable --now vllm-ds4-head.service vllm.timer",
        ),
    ],
)
def test_what_ends_a_unit_can_be_typed_as_it_stands(fields: dict[str, Any], end: str) -> None:
    (found,) = trouble(second_supervisor.CHECK, at(runs("/v/bin/vllm", "serve", "x", **fields)))
    assert found.fix.startswith(f"on spark1: {end} (")


def test_a_generated_unit_that_does_not_run_starts_nothing() -> None:
    unit = runs("/v/bin/vllm", "serve", "x", file_state="generated", active="inactive")
    assert trouble(second_supervisor.CHECK, at(unit)) == []


def test_f33_restart_policies() -> None:
    (found,) = trouble(second_supervisor.CHECK, at(there=(replace(DS4, restart="unless-stopped", argv=("bash", "x")),)))
    assert (found.status, found.fix.split(" (")[0]) == ("warn", "on spark1: docker update --restart=no vllm_ds4")
    same = replace(DS4, restart="always", argv=("vllm", "serve", "m", "--port=8000"))
    assert [one.status for one in trouble(second_supervisor.CHECK, at(there=(same,)))] == ["fail"]
    assert trouble(second_supervisor.CHECK, at(there=(replace(same, owner="us"),))) == []
    assert trouble(second_supervisor.CHECK, at(there=(replace(same, restart="no"),))) == []
    web = replace(same, name="grafana", image="grafana/grafana:11", argv=("/run.sh",))
    assert trouble(second_supervisor.CHECK, at(there=(web,))) == []


@pytest.mark.parametrize(
    ("boots", "texts"),
    [
        (Boots(up_s=9, required="linux-image-6.14"), ["spark1 waits for a reboot after an upgrade"]),
        (
            Boots(up_s=9, required="-", automatic="02:00"),
            ["upgrades reboot spark1 by themselves (02:00), and the group goes down with it"],
        ),
        (Boots(up_s=9), []),
    ],
)
def test_upgrades(boots: Boots, texts: list[str]) -> None:
    world = at(there=())
    found = said(second_supervisor.CHECK, replace(world, facts={**world.facts, ("spark1", "boots"): boots}))
    assert found == [("spark1", "warn", text) for text in texts]
