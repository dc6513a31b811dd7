"""What nodes show of how hard they work: recorded cards, and figures of CPU and fabric that grow at a given rate."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from sparkd.decide.busyness import Node
from sparkd.facts import gpu_load
from sparkd.model.effort import Card, Effort, Efforts, Flow, GpuLoad, ProcessTime

RECORDED = Path(__file__).with_name("gpu_loads")
COLUMNS = (
    *("index", "name", "utilization.gpu [%]", "utilization.memory [%]", "power.draw [W]"),
    *("clocks.current.sm [MHz]", "clocks_event_reasons.active"),
)
OWNER = "c" * 64
WAITING_W = 119.0
"""What the card of these files draws while a model is loaded and nobody asks."""
LOOKS_S = 15.0


def recorded(name: str, state: str | None = None) -> list[GpuLoad]:
    """Every sample of a file as the node would have told it; of `nccl` those of one state."""
    with (RECORDED / f"{name}.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, skipinitialspace=True) if row.get("state") == state]
    assert rows
    lines = (", ".join(row[column] for column in COLUMNS) for row in rows)
    return [gpu_load.parse(f"smi ok\ngpu {line}\npid 501\n") for line in lines]


def card(used: float | None, memory: float | None, power: float | None, reasons: int | None = 0) -> GpuLoad:
    return GpuLoad("ok", "", (Card("NVIDIA GB10", used, memory, power, 2411.0, reasons),), (501,))


def efforts(
    rate: float = 0.0, *processes: tuple[str, float], kind: str = "rdma", ended: float = 0.0, owner: str = OWNER
) -> Efforts:
    """Two looks 15 s apart: bytes a second on the fabric, cores of each process by name, and of children that have ended."""
    names = processes or (("VLLM::Worker", 1.0),)

    def look(at: float) -> Effort:
        found = [
            ProcessTime(501 + n, 1, owner, int(cores * at * 100), int(ended * at * 100) if not n else 0, comm)
            for n, (comm, cores) in enumerate(names)
        ]
        flows = (Flow(kind, "one", int(rate * at / 2), int(rate * at / 2)), Flow("net", "other", 7, 9))
        return Effort(at, 100, tuple(found), flows)

    return Efforts(look(1000.0), look(1000.0 + LOOKS_S))


def node(**more: Any) -> Node:
    """One of two nodes, whose fabric is still and whose card waits."""
    known: dict[str, Any] = {
        "name": "spark1",
        "efforts": efforts(),
        "gpu": recorded("loaded-idle")[0],
        "ranks": {OWNER: 0},
        "pids": frozenset((501,)),
        "waiting_w": WAITING_W,
    }
    return Node(**known | more)
