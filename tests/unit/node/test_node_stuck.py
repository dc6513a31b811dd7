"""Deadlines, with programs that really hang: an answer on time, no other probe delayed, nothing started twice."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.node.refusal import Refusal
from sparkd.node.tasks import MAX_TASKS, MOST_OVERDUE, Outcome, Tasks

from .service import Service, wait_for

pytestmark = pytest.mark.timeout(60)

PTRACE_SEIZE = 0x4206


def started(service: Service) -> list[int]:
    """Pids of every run of the fake systemctl, the first one first."""
    record = service.bin / "systemctl.pids"
    return [int(line) for line in record.read_text().split()] if record.exists() else []


@pytest.fixture
def hanging(service: Service) -> Iterator[Service]:
    """A service whose systemctl never ends by itself; after the test every run of it must have been killed."""
    service.program("systemctl", 'echo $$ >> "$0.pids"; exec sleep 300')
    yield service
    assert started(service)
    wait_for("all runs are killed", lambda: not any(Path(f"/proc/{pid}").exists() for pid in started(service)))


def test_a_hanging_systemctl_is_answered_on_time(hanging: Service) -> None:
    with hanging.claimed() as node:
        began = time.monotonic()
        answers = node.probe({"name": "system"}, {"name": "units"}, deadline_s=0.5)
        assert time.monotonic() - began < 3
        assert answers["system"]["code"] == answers["units"]["code"] == "timeout"


def test_f40_the_children_of_a_hanging_program_are_killed_too(service: Service) -> None:
    service.program("systemctl", 'sleep 300 & echo $! >> "$0.pids"; wait')
    with service.claimed() as node:
        node.probe({"name": "system"}, deadline_s=0.5)
    (child,) = started(service)
    wait_for("the child is killed", lambda: not Path(f"/proc/{child}").exists())


def test_a_hanging_probe_delays_no_other(hanging: Service) -> None:
    with hanging.claimed() as node:
        names = ["system", "boot", "meminfo", "docker", "shm"]
        answers = node.probe(*({"name": name} for name in names), deadline_s=2.0)
        assert list(answers)[-2:] == ["system", "done"]
        assert all("text" in answers[name] for name in names[1:])


def test_each_probe_may_have_its_own_deadline(hanging: Service) -> None:
    with hanging.claimed() as node:
        began = time.monotonic()
        answers = node.probe({"name": "system", "deadline_s": 0.3}, {"name": "boot"}, deadline_s=20.0)
        assert time.monotonic() - began < 5
        assert answers["system"]["code"] == "timeout"


@pytest.mark.skipif(os.geteuid() != 0, reason="tracing another process needs root")
def test_a_stuck_probe_is_not_started_again_until_it_ends(hanging: Service) -> None:
    """A traced process stays a zombie for its parent until the tracer lets go: as unkillable as one in state D."""
    with hanging.claimed() as node, hanging.connect() as other:
        slow = threading.Thread(target=node.probe, args=({"name": "system"},), kwargs={"deadline_s": 1.0})
        slow.start()
        wait_for("systemctl runs", lambda: len(started(hanging)) == 1)
        (pid,) = started(hanging)
        assert ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, None, None) == 0
        slow.join(10)

        began = time.monotonic()
        answers = other.probe({"name": "system"}, {"name": "boot"}, deadline_s=10.0)
        assert time.monotonic() - began < 2, "a stuck probe is answered at once"
        assert answers["system"]["code"] == "timeout"
        assert "still running since" in answers["system"]["error"]
        assert "text" in answers["boot"]
        assert started(hanging) == [pid]

        os.waitpid(pid, 0x40000000)  # __WALL: reaped by the tracer, then by its parent

        def again() -> bool:
            other.probe({"name": "system"}, deadline_s=0.2)
            return len(started(hanging)) > 1

        wait_for("the probe is started again", again)


@pytest.mark.skipif(os.geteuid() != 0, reason="tracing another process needs root")
def test_a_stuck_probe_does_not_answer_another_question(hanging: Service) -> None:
    """By its name alone one user whose units never come was all users, and one dead folder every model."""
    stuck, other = ({"name": "units", "args": {"users": [name]}} for name in ("stuck", "other"))
    with hanging.claimed() as node:
        slow = threading.Thread(target=node.probe, args=(stuck,), kwargs={"deadline_s": 1.0})
        slow.start()
        wait_for("systemctl runs", lambda: len(started(hanging)) == 1)
        (pid,) = started(hanging)
        assert ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, None, None) == 0
        slow.join(10)
        hanging.program("systemctl", "echo Id=other.service")
        with hanging.connect() as second:
            assert "still running since" in second.probe(stuck)["units"]["error"]
            assert second.text("units", **other["args"]).startswith("Now=")  # type: ignore[arg-type]
        os.waitpid(pid, 0x40000000)


def test_tasks_keep_the_key_of_overdue_work() -> None:
    tasks, gate, outcomes = Tasks(), threading.Event(), list[Outcome]()
    tasks.start("probe x", "", 0.05, gate.wait, outcomes.append)
    tasks.start("probe x", "", 0.05, lambda: "not overdue yet", outcomes.append)
    wait_for("the second ended", lambda: len(outcomes) == 1)
    wait_for("the first is overdue", lambda: _refused(tasks, "probe x") == "timeout")
    assert _refused(tasks, "probe y") is None
    gate.set()
    wait_for("the key is free", lambda: _refused(tasks, "probe x") is None)


def test_another_question_is_not_kept_waiting_by_one_that_hangs() -> None:
    """Of one name they had one key: the answer about a dead mount was that of every other path too."""
    tasks, gate, outcomes = Tasks(), threading.Event(), list[Outcome]()
    tasks.start("probe x", "/dead", 0.05, gate.wait, outcomes.append)
    wait_for("the first is overdue", lambda: _refused(tasks, "probe x", "/dead") == "timeout")
    assert _refused(tasks, "probe x", "/alive") is None
    gate.set()


def test_questions_about_ever_other_dead_mounts_take_only_a_few_threads() -> None:
    tasks, gate, outcomes = Tasks(), threading.Event(), list[Outcome]()
    for number in range(MOST_OVERDUE):
        tasks.start("probe x", f"/dead{number}", 0.05, gate.wait, outcomes.append)
    wait_for("they are overdue", lambda: _refused(tasks, "probe x", "/another") == "timeout")
    assert _refused(tasks, "probe y", "/another") is None
    gate.set()
    wait_for("they ended", lambda: _refused(tasks, "probe x", "/another") is None)


def test_tasks_turn_every_error_into_a_refusal() -> None:
    tasks, outcomes = Tasks(), list[Outcome]()

    def denied() -> None:
        raise PermissionError(13, "Permission denied", "/x")

    def broken() -> None:
        raise KeyError("bug")

    for work in (denied, broken):
        tasks.start(work.__name__, "", 5, work, outcomes.append)
        wait_for("it ended", lambda: bool(outcomes))
        refusal = outcomes.pop().refusal
        assert refusal is not None
        assert refusal.code == "failed"


def test_tasks_are_bounded() -> None:
    tasks, gate = Tasks(), threading.Event()
    for number in range(MAX_TASKS):
        tasks.start(f"probe {number}", "", 60, gate.wait, lambda _: None)
    assert _refused(tasks, "one more") == "refused"
    gate.set()
    wait_for("there is room", lambda: _refused(tasks, "one more") is None)


def _refused(tasks: Tasks, name: str, about: str = "") -> str | None:
    try:
        tasks.start(name, about, 5, lambda: None, lambda _: None)
    except Refusal as refusal:
        return refusal.code
    return None
