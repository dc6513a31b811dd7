"""The name of a fault -> what is done to the running demo, what will be seen, and the wait until it has been seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from sparkd.ctl.errors import Refused
from sparkd.ctl.text import say
from sparkd.demo.errors import DemoError
from sparkd.demo.scene import Event, Scene, kill

WORKER = "VLLM::Worker_TP1"
PATIENCE_S = 60.0


def _failed(event: Event) -> bool:
    return bool(event["kind"] == "failed")


def _warm_up_failed(event: Event) -> bool:
    return bool(event["kind"] == "action" and event["data"].get("action") == "WarmUp")


@dataclass(frozen=True, slots=True)
class Fault:
    """`over`: the event after which the fault is taken away again; `ends`: the kind of event that ends the scene."""

    does: str
    seen: str
    inject: Callable[[Scene], None]
    over: Callable[[Event], bool] = lambda event: False
    ends: str = "serving"


def _control(**faults: Any) -> Callable[[Scene], None]:
    """Tells the simulated engine. Written aside and renamed: its ranks read this at every step."""

    def inject(scene: Scene) -> None:
        whole = scene.layout.faults.with_suffix(".new")
        whole.write_text(json.dumps(faults), "utf-8")
        whole.replace(scene.layout.faults)

    return inject


def _error_chunk(scene: Scene) -> None:
    _control(error_chunk=True)(scene)
    scene.operate("restart", "demo fault error-chunk")


def heal(scene: Scene) -> None:
    scene.layout.faults.unlink(missing_ok=True)
    if scene.deployment()["hold"]:
        _release(scene)


def _release(scene: Scene) -> None:
    try:
        scene.operate("release", "demo fault heal")
    except Refused as error:
        if error.code != "conflict":
            raise
        # It was released between the look at it and now: that is what was wanted.


STALLED = (
    "no token moves and a canary request fails. After some seconds (10 minutes with the real clocks) sparkd calls "
    "it stalled and starts the group anew, without the fault. In the end it serves again."
)

FAULTS: dict[str, Fault] = {
    "kill-worker": Fault(
        f"SIGKILL to the worker's engine process ({WORKER} on spark2).",
        "vLLM's head does not notice a lost worker while nobody asks. sparkd sees the rank end within a second, takes "
        "the other one down with it, and starts both as a new generation. In the end it serves again.",
        lambda scene: kill(scene.process("spark2", WORKER).pid),
    ),
    "kill-head": Fault(
        "SIGKILL to the head's first process, the API server on spark1.",
        "the head ends with status 137. Its worker would wait for ever, so sparkd stops it too and starts both as a "
        "new generation. In the end it serves again.",
        lambda scene: kill(scene.first_process("spark1", 0)),
    ),
    "freeze": Fault(
        "the worker stops taking part, as in a hung collective; every process is alive and /health is green.",
        STALLED,
        _control(freeze=True, rank=1),
        _failed,
    ),
    "hang": Fault(
        "the head accepts requests and never schedules them; /health is green and the counters stand still.",
        STALLED,
        _control(hang_requests=True),
        _failed,
    ),
    "error-chunk": Fault(
        "every answer breaks off after two tokens with an error chunk, under HTTP status 200; the group is restarted.",
        "/health is green soon, but sparkd does not call it ready: the warm-up, a real completion, breaks off. Then "
        "the fault is taken away and the next try, 15 s later, succeeds. In the end it serves again.",
        _error_chunk,
        _warm_up_failed,
    ),
    "exit127": Fault(
        "both ranks end with status 127, as if their program had gone, and will do so at every start.",
        "sparkd tries once more, meets the same end, and gives up visibly: trying on cannot help. In the end it is "
        "held, until `sparkd demo fault heal`.",
        _control(die="exit127"),
        ends="held",
    ),
    "heal": Fault(
        "takes the fault away, and releases the deployment if it is held.", "in the end it serves again.", heal
    ),
}


def show(scene: Scene, name: str) -> None:
    """Does it, and returns when it has ended as its text says. Raises DemoError when it did not, or cannot now."""
    fault, before = FAULTS[name], scene.deployment()
    if name != "heal" and not before["serving"]:
        text = f"{before['name']} does not serve now: {before['sentence']}"
        raise DemoError(text, "wait until it does (sparkd ctl status), or: sparkd demo fault heal")
    for text in (f"{name}: {fault.does}", f"What you will see: {fault.seen}"):
        say(f"{text}\n\n")
    after, since = scene.last_event(), time.time()
    fault.inject(scene)
    if name == "heal" and before["serving"]:
        click.echo("It is serving already.")
        return

    def last(event: Event) -> bool:
        if fault.over(event):
            scene.layout.faults.unlink(missing_ok=True)
        if name == "heal" and event["kind"] == "held":
            _release(scene)  # ranks that had met the fault before it was taken away
        return bool(event["kind"] == fault.ends)

    scene.follow(after, since, PATIENCE_S, last)
    say(f"\n{scene.status()['verdict']}")
