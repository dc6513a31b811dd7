"""Ranks that end or stand still, one after the other, on clocks of a tenth -> how long until sparkd says so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from statistics import median

from sparkd.demo.errors import DemoError
from sparkd.demo.scene import Scene, age, kill

from .bench import Bench
from .clocks import Clocks
from .proc import quantile
from .table import Row
from .world import World, world

WORKER = "VLLM::Worker_TP1"
# A tenth and less of what people have; nothing is paused for, since what is measured ends with the verdict.
PERIOD_S, CANARY_AFTER_S, CANARY_TIMEOUT_S, STUCK_AFTER_S = 0.5, 2.0, 2.0, 3.0
POLICY = {
    "canary_timeout": CANARY_TIMEOUT_S,
    "stuck_after": STUCK_AFTER_S,
    "backoff": {"first": 0.1, "max": 0.1, "jitter": 0.0},
    "budget": {"starts": 1000, "per": 3600, "per_day": 1000},
}
GONE_LIMIT_S = 2 * PERIOD_S
"""Polling alone: 10 s at a period of 5 s."""
STUCK_LIMIT_S = CANARY_AFTER_S + max(STUCK_AFTER_S, CANARY_TIMEOUT_S) + 2 * PERIOD_S
"""The wait for a canary, the verdict's own clock, and two looks."""
PATIENCE_S = 60.0


def _worker_killed(scene: Scene) -> None:
    kill(scene.process("spark2", WORKER).pid)


def _head_killed(scene: Scene) -> None:
    kill(scene.rank("spark1", 0).pid)


def _worker_stopped(scene: Scene) -> None:
    os.kill(scene.process("spark2", WORKER).pid, signal.SIGSTOP)


FAULTS: dict[str, tuple[Callable[[Scene], None], float]] = {
    "worker's process killed": (_worker_killed, GONE_LIMIT_S),
    "head killed": (_head_killed, GONE_LIMIT_S),
    "worker's process stopped": (_worker_stopped, STUCK_LIMIT_S),
}


def detect(bench: Bench) -> Iterator[Row]:
    took: dict[str, list[float]] = {what: [] for what in FAULTS}
    with world(Clocks(PERIOD_S, 0.4, CANARY_AFTER_S, policy=POLICY)) as made:
        scene = Scene(made.layout)
        for what in islice(cycle(FAULTS), bench.scale.injections):
            took[what].append(_verdict(made, scene, FAULTS[what][0]))
    for what, (_, limit) in FAULTS.items():
        yield Row(
            benchmark="detect",
            what=f"{what} to verdict, p99",
            unit="s",
            value=quantile(took[what], 0.99),
            limit=limit,
            spread=f"p50 {median(took[what]):.2f}, n {len(took[what])}",
            note=f"period {PERIOD_S} s, no events of Docker; a canary after {CANARY_AFTER_S:g} s, stuck after {STUCK_AFTER_S:g}",
        )


def _verdict(made: World, scene: Scene, inject: Callable[[Scene], None]) -> float:
    """Seconds from the fault to the event `failed`."""
    made.until("it serves", lambda: bool(scene.deployment()["serving"]), PATIENCE_S)
    after, began = scene.last_event(), time.time()
    inject(scene)
    for event in scene.happening(after, PATIENCE_S):
        if event["kind"] == "failed":
            return age(event, began)
    raise DemoError("it was never told")
