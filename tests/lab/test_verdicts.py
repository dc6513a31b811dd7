"""Every fault on the clocks that people have: which verdict, of which class, after how long. Prints the rows of docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from .commands import wait_for
from .configured import FAST, NAME, cluster, deployment
from .driver import Daemon, Json
from .faults import fabric_cut, freeze, kill
from .layout import ENGINE_IMAGE, MODEL
from .load import Load
from .nodes import Lab, Node

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

# Only what follows a verdict is short: pauses and budgets.
POLICY: dict[str, Any] = {"budget": {"starts": 200, "per_day": 500}, "backoff": {"first": 2, "max": 4}}
WRAPPED, WEIGHTS = "/lab/fast/mods/vllm", "/lab/fast/mods/model"
SAME = f'#!/bin/sh\nexec {FAST} "$@"\n'
OFF = "checks: {flags: off, model: off, image: off, memory: off, disk: off}\n"


class Case(NamedTuple):
    """`break_it` is done to a group that serves, in the block of an open stack."""

    break_it: Callable[[Daemon, ExitStack], object]
    signatures: tuple[str, ...]
    cls: str
    within_s: float
    """The clock of its verdict, a canary and some looks."""
    busy: bool = False


def _stop_worker(daemon: Daemon, stack: ExitStack) -> None:
    freeze(daemon.worker, daemon.engine_pid(1, "VLLM::Worker_TP1"))


def _cut(daemon: Daemon, stack: ExitStack) -> None:
    stack.enter_context(fabric_cut(daemon.worker))


SERVING: dict[str, Case] = {
    "a rank stopped (SIGSTOP), busy": Case(_stop_worker, ("rank-stuck",), "transient", 300, busy=True),
    "a rank stopped (SIGSTOP), idle": Case(_stop_worker, ("rank-stuck",), "transient", 420),
    "fabric cut, busy": Case(_cut, ("fabric-silent",), "transient", 300, busy=True),
    "fabric cut, idle": Case(_cut, ("fabric-silent",), "transient", 420),
    "engine core killed": Case(
        lambda d, _: kill(d.head, d.engine_pid(0, "VLLM::EngineCore")), ("engine-dead", "exit-0"), "transient", 60
    ),
    "head gone": Case(lambda d, _: d.head.docker("kill", d.container(0)), ("exit-137",), "transient", 30),
    "worker gone": Case(lambda d, _: d.worker.docker("kill", d.container(1)), ("exit-137",), "transient", 30),
    "worker's process killed, idle": Case(
        lambda d, _: kill(d.worker, d.engine_pid(1, "VLLM::Worker_TP1")), ("exit-0",), "transient", 30
    ),
}


def configured(lab: Lab, text: str) -> Daemon:
    daemon = Daemon(lab)
    daemon.configure({"sparkd.yaml": cluster(POLICY), f"deployments/{NAME}.yaml": text})
    daemon.up()
    return daemon


def now(node: Node) -> float:
    return float(node.text(["date", "+%s.%N"]))


def told(daemon: Daemon, what: str, since: float, kind: str = "failed", cls: str = "") -> Json:
    """Prints the row of this fault."""
    (event, *_) = [one for one in daemon.kinds(kind) if _at(one) >= since]
    failure = daemon.one()["last_failure"] or {}
    signature = failure.get("signature", kind)
    print(
        f"| {what} | `{signature}` | {failure.get('class', cls)} | {_at(event) - since:.1f} s | {event['sentence']} |"
    )
    return dict(failure)


def _at(event: Json) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


@pytest.fixture(scope="module")
def group(lab: Lab) -> Daemon:
    lab.reset()
    lab.install()
    daemon = configured(lab, deployment(canary_after=120))
    daemon.start()
    return daemon


@pytest.mark.parametrize("what", SERVING)
def test_what_breaks_a_group_that_serves(group: Daemon, what: str) -> None:
    case, before = SERVING[what], group.wait_serving(deadline_s=240)
    with ExitStack() as stack:
        if case.busy:
            stack.enter_context(Load(group, max_tokens=400))
        since = now(group.head)
        case.break_it(group, stack)
        group.wait("the verdict", lambda one: one["phase"] != "serve", case.within_s)
        failure = told(group, what, since)
    assert failure["signature"] in case.signatures
    assert failure["class"] == case.cls
    group.wait_serving(after=before["generation"], deadline_s=240)


def test_f23_a_stale_rank_of_an_older_generation_goes_and_nothing_else(group: Daemon) -> None:
    before, owner = group.wait_serving(), group.status()["daemon"]["owner"]
    labels = {"owner": owner, "deployment": NAME, "generation": "1", "rank": "1", "spec": "x"}
    words = [word for key, value in labels.items() for word in ("--label", f"io.sparkd.{key}={value}")]
    since, stale = now(group.head), f"sparkd-{NAME}-1"  # where its file had once put it
    group.head.docker("run", "-d", "--name", stale, *words, ENGINE_IMAGE, "sleep", "1000")
    try:
        wait_for("it to be gone", lambda: group.head.docker("inspect", stale, check=False).returncode != 0, 120)
        took = now(group.head) - since
        print(f"| stale rank of an older generation | - | - | {took:.1f} s to its end | the group serves on |")
    finally:
        group.head.docker("rm", "-f", stale, check=False)
    assert group.wait_serving()["generation"] == before["generation"]


# ------------------------------------------------------------------------------------------------------------- starts


@pytest.fixture
def nodes(lab: Lab) -> Lab:
    lab.reset()
    lab.install()
    for node in lab.nodes:
        node.write(WRAPPED, SAME, 0o755)
        node.run(["rm", "-rf", WEIGHTS])
        node.run(["cp", "-r", MODEL, WEIGHTS])
    return lab


def _worker_never_comes(lab: Lab) -> None:
    lab.spark2.write(WRAPPED, "#!/bin/sh\nexec sleep 10000\n", 0o755)


def _truncated(lab: Lab) -> None:
    lab.spark2.run(["sh", "-c", f"for one in {WEIGHTS}/*.safetensors; do truncate -s 1000 $one; done"])


def _nothing(lab: Lab) -> None:
    """Its file alone is wrong."""


STARTS: dict[str, tuple[Callable[[Lab], None], dict[str, Any], str, tuple[str, ...], float]] = {
    "bad flag": (_nothing, {}, "  no-such-flag: 1\n", ("exit-2",), 60),
    "model missing": (_nothing, {"model": "/lab/none"}, "", ("exit-1",), 60),
    "model cut off on the worker": (_truncated, {"model": WEIGHTS}, "", ("exit-1",), 60),
    "memory limit too small": (_nothing, {"memory": "16MiB"}, "", ("oom-killed",), 60),
    "worker never comes": (_worker_never_comes, {"command": WRAPPED}, "", ("peer-missing",), 200),
}


@pytest.mark.parametrize("what", STARTS)
def test_what_breaks_a_start(nodes: Lab, what: str) -> None:
    break_it, changes, args, signatures, within_s = STARTS[what]
    break_it(nodes)
    memory = changes.pop("memory", None) if (changes := dict(changes)) else None
    text = deployment(canary_after=120, **changes).replace("args:\n", f"args:\n{args}") + OFF
    if memory:
        text = text.replace("gpus: null", f"gpus: null, memory: {memory}")
    daemon = configured(nodes, text)
    since = now(daemon.head)
    daemon.ctl("start", NAME)
    daemon.wait("the verdict", lambda one: one["last_failure"], within_s)
    failure = told(daemon, what, since)
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=120)
    assert failure["signature"] in signatures


def test_ranks_that_differ_are_found_at_the_third_request(nodes: Lab) -> None:
    """Evidence 12c: two requests are answered; at the third the worker fails and the head's log stays clean."""
    nodes.spark2.write(WRAPPED, f'#!/bin/sh\nexec {FAST} "$@" --max-num-seqs 2\n', 0o755)
    daemon = configured(nodes, deployment(canary_after=120, command=WRAPPED) + OFF)
    daemon.start()
    with ExitStack() as stack:
        since = now(daemon.head)
        for _ in range(3):
            stack.enter_context(Load(daemon, max_tokens=400))
        daemon.wait("the verdict", lambda one: one["phase"] != "serve", 240)
        failure = told(daemon, "ranks that differ (max-num-seqs), third request", since)
    assert failure["signature"] == "worker-exception"
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=120)
