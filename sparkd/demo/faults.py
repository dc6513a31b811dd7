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
SLOW_START_S = 15.0

Undo = Callable[[], None]


def _kind(name: str) -> Callable[[Event], bool]:
    return lambda event: bool(event["kind"] == name)


def _never(event: Event) -> bool:
    return False


def _warm_up_failed(event: Event) -> bool:
    return bool(event["kind"] == "action" and event["data"].get("action") == "WarmUp")


@dataclass(frozen=True, slots=True)
class Fault:
    """`inject` breaks something and says how that is taken back; `over`: the event after which it is taken back;
    `ends`: the kinds of event that end the scene."""

    does: str
    seen: str
    inject: Callable[[Scene], Undo]
    over: Callable[[Event], bool] = _never
    ends: tuple[str, ...] = ("serving",)


# ------------------------------------------------------------------------------------------------------- what is done


def _nothing() -> None:
    """What was killed stays killed."""


def _control(restart: bool = False, **faults: Any) -> Callable[[Scene], Undo]:
    """Tells the simulated engine. Written aside and renamed: its ranks read this at every step."""

    def inject(scene: Scene) -> Undo:
        whole = scene.layout.faults.with_suffix(".new")
        whole.write_text(json.dumps(faults), "utf-8")
        whole.replace(scene.layout.faults)
        if restart:
            scene.operate("restart", "demo fault")
        return lambda: scene.layout.faults.unlink(missing_ok=True)

    return inject


def _kill_worker(scene: Scene) -> Undo:
    kill(scene.process("spark2", WORKER).pid)
    return _nothing


def _kill_head(scene: Scene) -> Undo:
    kill(scene.rank("spark1", 0).pid)
    return _nothing


def _kill_sparkd(scene: Scene) -> Undo:
    kill(scene.daemon())
    return _nothing


def _out_of_memory(scene: Scene) -> Undo:
    victim = scene.rank("spark2", 1)
    with scene.layout.victims.open("a", encoding="ascii") as file:
        file.write(f"{victim.id}\n")
    kill(victim.pid)
    return _nothing


def _take_the_port(scene: Scene) -> Undo:
    """Another program gets the API's port while the group is stopped, as after a start by hand that was forgotten."""
    scene.operate("stop", "demo fault port-taken")
    thief = scene.listener(scene.layout.api_port)
    scene.operate("start", "demo fault port-taken")
    return thief.close


def _edit(scene: Scene) -> Undo:
    scene.layout.edited.touch()
    return _kill_sparkd(scene)


def _heal(scene: Scene) -> Undo:
    scene.layout.faults.unlink(missing_ok=True)
    if scene.layout.edited.exists():
        scene.layout.edited.unlink()
        _kill_sparkd(scene)
    elif scene.deployment()["hold"]:
        _release(scene)
    elif scene.deployment()["wanted"] != "up":
        scene.operate("start", "demo fault heal")
    return _nothing


def _release(scene: Scene) -> None:
    try:
        scene.operate("release", "demo fault heal")
    except Refused as error:
        if error.code != "conflict":
            raise
        # It was released between the look at it and now: that is what was wanted.


# ---------------------------------------------------------------------------------------------------------- the table

STALLED = (
    "no token moves and a canary request fails. After some seconds (10 minutes with the real clocks) sparkd calls "
    "it stalled and starts the group anew, without the fault. In the end it serves again."
)

FAULTS: dict[str, Fault] = {
    "kill-worker": Fault(
        f"SIGKILL to the worker's engine process ({WORKER} on spark2).",
        "vLLM's head does not notice a lost worker while nobody asks. sparkd sees the rank end within a second, takes "
        "the other one down with it, and starts both as a new generation. In the end it serves again.",
        _kill_worker,
    ),
    "kill-head": Fault(
        "SIGKILL to the head's first process, the API server on spark1.",
        "the head ends with status 137. Its worker would wait for ever, so sparkd stops it too and starts both as a "
        "new generation. In the end it serves again.",
        _kill_head,
    ),
    "kill-sparkd": Fault(
        "SIGKILL to sparkd itself; the demo starts it again, as systemd would.",
        "nothing happens to the engine: both ranks go on and answer. The new sparkd looks before it acts, knows them "
        "for its own and adopts them. In the end it serves, still as the same generation.",
        _kill_sparkd,
        ends=("adopted",),
    ),
    "oom": Fault(
        "SIGKILL to the first process of the worker, as the kernel's OOM killer sends it. That it was for lack of "
        "memory is simulated: the demo has no control groups, by which a real node tells.",
        "the worker ends with status 137, and sparkd says that it was killed for lack of memory: a cause that may "
        "pass. It stops the head too and starts both anew. In the end it serves again.",
        _out_of_memory,
    ),
    "freeze": Fault(
        "the worker stops taking part, as in a hung collective; every process is alive and /health is green.",
        STALLED,
        _control(freeze=True, rank=1),
        _kind("failed"),
    ),
    "hang": Fault(
        "the head accepts requests and never schedules them; /health is green and the counters stand still.",
        STALLED,
        _control(hang_requests=True),
        _kind("failed"),
    ),
    "error-chunk": Fault(
        "every answer breaks off after two tokens with an error chunk, under HTTP status 200; the group is restarted.",
        "/health is green soon, but sparkd does not call it ready: the warm-up, a real completion, breaks off. Then "
        "the fault is taken away and the next try, 15 s later, succeeds. In the end it serves again.",
        _control(restart=True, error_chunk=True),
        _warm_up_failed,
    ),
    "nonsense": Fault(
        "every answer is one token repeated; /health is green, tokens move, canaries are answered in time.",
        "sparkd asks an idle engine one fixed question now and then (every few seconds here, every hour with the real "
        "clocks). The answer makes no sense, nor does the next: it counts as not serving, and the answer is told beside "
        "the last one that made sense. Nothing is restarted. The fault is taken away, and with the next answer that "
        "makes sense it is over. In the end it serves again, still as the same generation.",
        _control(nonsense=True),
        _kind("nonsense"),
        ends=("recovered",),
    ),
    "slow-start": Fault(
        f"the group is restarted, and its start takes {SLOW_START_S:.0f} s instead of two.",
        "nothing but waiting: slow is not dead. sparkd shows the stage and starts nothing twice; a start has its own "
        "budget (60 s here, 45 minutes with the real clocks). In the end it serves again, without a failure.",
        _control(restart=True, start_s=SLOW_START_S),
        _kind("serving"),
    ),
    "die-starting": Fault(
        "the group is restarted, and its worker ends with status 1 while it loads its weights.",
        "vLLM's head would wait for it in silence, for half an hour. sparkd sees the rank end, takes the head down "
        "and tries again, without the fault. In the end it serves again.",
        _control(restart=True, die_at_stage="weights", code=1, rank=1),
        _kind("failed"),
    ),
    "port-taken": Fault(
        "the group is stopped, another program takes its API port, and the group is started.",
        "sparkd starts nothing on a port that is not free: a rank would load for minutes and die of it. The group is "
        "held, with the pid of the program. The port is let go; sparkd sees it and goes on by itself. In the end it "
        "serves again.",
        _take_the_port,
        _kind("held"),
    ),
    "exit127": Fault(
        "both ranks end with status 127, as if their program had gone, and will do so at every start.",
        "sparkd tries once more, meets the same end, and gives up visibly: trying on cannot help. In the end it is "
        "held, until `sparkd demo fault heal`.",
        _control(die="exit127"),
        ends=("held",),
    ),
    "drift": Fault(
        "the deployment's file changes while its group runs (--max-num-seqs 64); sparkd, killed and started again, reads it.",
        "the running ranks no longer are what the file asks for. Editing restarts nothing: sparkd adopts them as they "
        "are. In the end it serves, still as the same generation, with a restart pending: `sparkd ctl restart` would "
        "bring the change, `sparkd demo fault heal` takes it back.",
        _edit,
        ends=("adopted",),
    ),
    "heal": Fault(
        "takes the fault away; releases the deployment if it is held, starts it if it is stopped.",
        "in the end it serves again.",
        _heal,
        ends=("serving", "adopted"),
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
    if name == "heal" and before["serving"] and not scene.layout.edited.exists():
        scene.layout.faults.unlink(missing_ok=True)
        click.echo("It is serving already.")
        return
    _watch(scene, name, fault)
    status = scene.settled()
    pending = " A restart is pending." if status["deployments"][0]["restart_pending"] else ""
    say(f"\n{status['verdict']}{pending}")


def _watch(scene: Scene, name: str, fault: Fault) -> None:
    after, since = scene.last_event(), time.time()
    undo = fault.inject(scene)

    def last(event: Event) -> bool:
        if fault.over(event):
            undo()
        if name == "heal" and event["kind"] == "held":
            _release(scene)  # ranks that had met the fault before it was taken away
        return event["kind"] in fault.ends

    scene.follow(after, since, PATIENCE_S, last)
