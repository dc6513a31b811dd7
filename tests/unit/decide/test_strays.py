"""Whose a process is: by its control group and its mark, never by its title; and what may be ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide import strays
from sparkd.model.action import KillProcesses, ProcessTarget
from sparkd.model.config import Cleanup
from sparkd.model.decision import FailureClass, Phase
from sparkd.model.machine import EngineProcess, Socket
from sparkd.model.snapshot import NodeView, Unknown

from .world import NOW, OWNER, container, decide, kinds, listening, node, process, seen, state, stray

C = "c" * 64
CLEANUP = state(Phase.CLEANUP, cleaned=2)
MINE, OTHERS = (OWNER, "demo", 1), ("somebody", "demo", 1)


def held_by(holder: EngineProcess, port: int = 29501, **facts: Any) -> NodeView:
    return node("spark1", sockets=(listening(port, holder.pid),), engines=(holder,), **facts)


WHOSE: list[tuple[EngineProcess, str]] = [
    (stray(owner=C), "container"),
    (stray(owner=C, mark=OTHERS), "container"),
    (stray(owner=C, mark=MINE), "ours"),
    (stray(owner="sparkd-demo-0-g1"), "ours"),
    (stray(owner="sparkd-demo-0.service"), "ours"),
    (stray(owner="vllm-ds4-head.service"), "unit"),
    (stray(owner="user@1000.service/sparkd-demo-0.service"), "unit"),
    (stray(owner="user@1000.service"), "loose"),
    (stray(owner="ssh.service"), "loose"),
    (stray(owner="cron.service"), "loose"),
    (stray(owner="getty@tty1.service"), "loose"),
    (stray(owner="session-3.scope"), "loose"),
    (stray(), "loose"),
    (stray(mark=(OWNER, "other", 3)), "ours"),
]


@pytest.mark.parametrize(("found", "kind"), WHOSE)
def test_a_title_proves_nothing(found: EngineProcess, kind: str) -> None:
    assert strays.whose(found, node("spark1", container(0)), OWNER).kind == kind


ENDS: list[tuple[EngineProcess, str, bool]] = [
    (stray(), "own", False),
    (stray(), "holders", True),
    (stray(), "never", False),
    (stray(owner=C), "holders", False),
    (stray(owner="vllm-ds4-head.service"), "holders", False),
    (stray(mark=(OWNER, "other", 3)), "holders", False),
]


@pytest.mark.parametrize(("holder", "allowed", "ends"), ENDS)
def test_a_holder_of_our_port_is_ended_where_that_is_allowed(holder: EngineProcess, allowed: str, ends: bool) -> None:
    look = replace(seen(held_by(holder)), cleanup=Cleanup(remove_strays=allowed))
    decision = decide(CLEANUP, look)
    assert (kinds(decision) == ["KillProcesses"]) is ends
    if ends:
        assert decision.actions == (
            KillProcesses((ProcessTarget("spark1", "spark1-boot1", 10, 500, 5000, "VLLM::Worker"),)),
        )
        assert decision.sentence.endswith("ending VLLM::Worker (pid 500) on spark1, which holds port 29501")


def test_nothing_is_ended_in_an_unknown_boot() -> None:
    view = replace(held_by(stray()), boot=Unknown("no answer", NOW))
    assert strays.target(stray(), view) is None


def test_a_long_title_does_not_fill_the_sentence() -> None:
    found = strays.whose(stray(title="VLLM::" + "x" * 8000), node("spark1"), OWNER)
    assert len(found.words) < 100


def test_a_unit_of_a_persons_own_systemd_is_ended_there() -> None:
    found = strays.whose(stray(owner="user@1000.service/vllm.service"), node("spark1"), OWNER)
    assert found.where == " of vllm.service"
    assert found.fix.startswith("as the user of user@1000.service: systemctl --user disable --now vllm.service")


HELD: list[tuple[EngineProcess | None, str, str]] = [
    (
        stray(owner=C),
        f"held by VLLM::Worker (pid 500) in container {C[:12]}, which is not sparkd's",
        f"docker stop {C[:12]}",
    ),
    (
        stray(owner="old.service"),
        "held by VLLM::Worker (pid 500) of old.service",
        "systemctl disable --now old.service",
    ),
    (stray(), "held by VLLM::Worker (pid 500)", "remove_strays: holders"),
    (stray(mark=(OWNER, "other", 3)), "(pid 500) of generation 3 of other", "kill -9 500"),
    (None, "is held by pid 99", "ss -ltnp 'sport = :29501' names the holder; stop it"),
]


@pytest.mark.parametrize(("holder", "text", "fix"), HELD)
def test_a_port_that_stays_held_names_its_holder(holder: EngineProcess | None, text: str, fix: str) -> None:
    view = node("spark1", sockets=(listening(29501),)) if holder is None else held_by(holder)
    waiting = decide(CLEANUP, seen(view)).state
    hold = decide(waiting, seen(view), now=NOW + 15).state.hold
    assert hold is not None
    assert (hold.cls, hold.fact) == (FailureClass.RESOURCE, "port:spark1:29501")
    assert text in hold.text
    assert fix in hold.fix


def test_a_socket_without_a_pid_is_found_by_its_port() -> None:
    view = node("spark1", engines=(stray(ports=(8000,)),))
    assert strays.holder(view, None, 8000, OWNER) is not None
    assert strays.holder(view, None, 29501, OWNER) is None
    assert strays.holder(replace(view, engines=Unknown("no answer", NOW)), 500, 8000, OWNER) is None


# --------------------------------------------------------------------------------------------------- what is left over


ORPHANS: list[tuple[dict[str, Any], bool]] = [
    ({"engines": (stray(mark=MINE),)}, True),
    ({"engines": (stray(mark=MINE, owner=C),)}, True),
    ({"engines": (stray(mark=MINE, state="Z"),)}, False),
    ({"engines": (stray(mark=OTHERS),)}, False),
    ({"engines": (stray(mark=(OWNER, "other", 1)),)}, False),
    ({"engines": (stray(),)}, False),
    ({"engines": (stray(mark=MINE),), "leftovers": {"demo": (process("-", 500),)}}, True),
    ({"engines": Unknown("no answer", NOW)}, False),
]


@pytest.mark.parametrize(("facts", "killed"), ORPHANS)
def test_what_outlived_its_container_is_ended_once(facts: dict[str, Any], killed: bool) -> None:
    """Its title overwrote its environment; a parent in the same control group still tells whose it is."""
    decision = decide(CLEANUP, seen(node("spark1", **facts)))
    assert (kinds(decision) == ["KillProcesses"]) is killed
    if killed:
        (action,) = decision.actions
        assert isinstance(action, KillProcesses)
        assert [one.pid for one in action.targets] == [500]


def test_what_belongs_to_a_container_goes_with_it() -> None:
    ours = container(0)
    view = node("spark1", ours, engines=(stray(mark=MINE, owner=ours.id),))
    assert strays.orphans("demo", view, OWNER) == {}
    mute = replace(view, containers=Unknown("mute", NOW), engines=(stray(mark=MINE, owner=C),))
    assert strays.orphans("demo", mute, OWNER) == {}, "unknown is not gone"


def test_f31_never_leaves_our_own_to_a_person_and_starts_nothing() -> None:
    look = replace(
        seen(node("spark1", leftovers={"demo": (process("-", 500),)})), cleanup=Cleanup(remove_strays="never")
    )
    decision = decide(CLEANUP, look)
    hold = decision.state.hold
    assert hold is not None
    assert (decision.actions, hold.fact, hold.heals_itself) == ((), "stray:spark1:500", True)
    assert "kill -9 500" in hold.fix
    assert decide(decision.state, look, now=NOW + 30).state.phase is Phase.HELD
    assert decide(decision.state, seen(), now=NOW + 30).state.phase is Phase.PRECHECK


def test_a_listener_elsewhere_is_no_trouble() -> None:
    elsewhere = Socket("LISTEN", "0.0.0.0", 9000, "0.0.0.0", 0, 0, 0, 1, 500)
    assert decide(CLEANUP, seen(node("spark1", sockets=(elsewhere,), engines=(stray(),)))).reason == "begin"


FIRST: list[tuple[EngineProcess, str, bool]] = [
    (stray(mark=MINE), "own", True),
    (stray(mark=MINE), "never", False),
    (stray(mark=OTHERS), "own", False),
    (stray(mark=(OWNER, "other", 3)), "holders", False),
    (stray(ports=(29501,)), "holders", True),
    (stray(ports=(29501,)), "own", False),
    (stray(ports=(80,)), "holders", False),
    (stray(owner=C, ports=(29501,)), "holders", False),
]


@pytest.mark.parametrize(("found", "allowed", "ends"), FIRST)
def test_what_a_start_would_end_is_what_it_ends(found: EngineProcess, allowed: str, ends: bool) -> None:
    view = node("spark1", engines=(found,))
    assert bool(strays.ended_first("demo", [29501], view, OWNER, allowed)) is ends


def test_a_rank_that_is_left_goes_as_a_whole() -> None:
    rank = container(0)
    inside = (stray(owner=rank.id, mark=MINE), stray(owner=rank.id, pid=78))
    found = strays.ended_first("demo", [29501], node("spark1", rank, engines=inside), OWNER, "own")
    assert found == {f"{rank.name} of generation {rank.generation}": sum(one.rss_bytes for one in inside)}
