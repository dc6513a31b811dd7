"""What the nodes of the simulated cluster show of how hard they work: cards as they were recorded, bytes and CPU by what goes on."""

from __future__ import annotations

from typing import NamedTuple

from sparkd.model.effort import Card, Effort, Efforts, Flow, GpuLoad, ProcessTime

LOOKS_S = 15.0


class Doing(NamedTuple):
    """What one node does: percent, percent, watts, bits of the clock-event reasons, bytes a second, names of its processes."""

    used: float
    memory: float
    power_w: float
    reasons: int = 0
    bytes_s: float = 0.0
    processes: tuple[tuple[str, float], ...] = (("VLLM::Worker", 1.0),)


WAITING = Doing(0, 0, 119.0)
SPIN = Doing(100, 0, 119.5)
"""As recorded of a kernel that only waits; between two nodes NCCL shows it also while nobody asks."""
PREFILL = Doing(99, 23, 690.0, 0x4, 1.2e9)
COMPILE = Doing(0, 0, 119.0, processes=(("VLLM::Worker", 1.0), ("ptxas", 0.9)))
TRICKLE = Doing(100, 0, 119.5, bytes_s=2e5)


def efforts(doing: Doing, owner: str, pid: int) -> Efforts:
    def look(at: float) -> Effort:
        found = (
            ProcessTime(pid + n, 1, owner, int(cores * at * 100), 0, name)
            for n, (name, cores) in enumerate(doing.processes)
        )
        moved = int(doing.bytes_s * at / 2)
        return Effort(at, 100, tuple(found), (Flow("rdma", "mlx5_0/1", moved, moved),))

    return Efforts(look(1000.0), look(1000.0 + LOOKS_S))


def gpu(doing: Doing, pid: int) -> GpuLoad:
    return GpuLoad(
        "ok", "", (Card("NVIDIA H200", doing.used, doing.memory, doing.power_w, 1980.0, doing.reasons),), (pid,)
    )
