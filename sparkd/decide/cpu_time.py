"""CPU time of one rank between two looks: how many cores it used, and how many of those its compilers."""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.model.effort import Efforts, ProcessTime

COMPILERS = frozenset(
    (
        *("nvcc", "cicc", "ptxas", "fatbinary", "nvlink", "cudafe++", "ninja", "cmake", "make"),
        *("gcc", "g++", "cc1", "cc1plus", "clang", "clang++", "collect2", "as", "ld", "ld.lld", "lld"),
    )
)
"""What torch's inductor, Triton, FlashInfer and DeepGEMM start when a request needs a kernel that there is not yet."""


@dataclass(frozen=True, slots=True)
class Used:
    """In cores, over the time between the looks."""

    known: bool = False
    """Did both looks see a process of it?"""
    cores: float = 0.0
    hardest: float = 0.0
    """Of the one process that used most."""
    compiling: float = 0.0
    """Of processes that are compilers by name, and of all that it started and that have ended: what waits starts none."""
    compilers: tuple[str, ...] = ()

    @classmethod
    def of(cls, efforts: Efforts, owner: str) -> Used:
        before = {_id(one): one for one in efforts.before.processes if one.owner == owner}
        now = {_id(one): one for one in efforts.now.processes if one.owner == owner}
        if not before.keys() & now.keys():
            return cls()
        ticks = efforts.seconds * efforts.now.ticks_per_s
        own = {key: one.ticks - (before[key].ticks if key in before else 0) for key, one in now.items()}
        # When a process has ended and was waited for, all that it ever used is its parent's.
        given_up = sum(one.ticks + one.child_ticks for key, one in before.items() if key not in now)
        passed_on = sum(one.child_ticks - (before[key].child_ticks if key in before else 0) for key, one in now.items())
        ended = max(0, passed_on - given_up)
        compilers = {key: used for key, used in own.items() if now[key].comm in COMPILERS}
        return cls(
            known=True,
            cores=(sum(own.values()) + ended) / ticks,
            hardest=max(own.values()) / ticks,
            compiling=(sum(compilers.values()) + ended) / ticks,
            compilers=tuple(sorted({now[key].comm for key in compilers})),
        )


def _id(process: ProcessTime) -> tuple[int, int]:
    return process.pid, process.start_ticks
