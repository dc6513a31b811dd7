"""What benchmarks share: how long to measure, and one serving world, made when the first of them needs it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from . import proc
from .clocks import Clocks
from .scale import Scale
from .world import World, world


@dataclass(frozen=True, slots=True)
class Settled:
    """The daemon after a time in which it served and nobody asked it anything."""

    seconds: float
    cpu_share: float
    """Of one core."""
    wakeups: dict[int, float]
    """Thread -> per second."""
    rss: int
    pss: int | None


@dataclass(slots=True)
class Bench:
    scale: Scale
    _stack: ExitStack = field(default_factory=ExitStack)
    _world: World | None = None
    _settled: Settled | None = None

    def world(self) -> World:
        """With the scale's clocks. Whoever breaks something mends it. Raises BenchError."""
        if self._world is None:
            clocks = Clocks(self.scale.period_s, self.scale.node_deadline_s)
            self._world = self._stack.enter_context(world(clocks))
        return self._world

    def settled(self) -> Settled:
        """Watched once, before anything else was done with the world."""
        if self._settled is None:
            pid = self.world().pid
            watch = proc.Watch(pid)
            watch.run(self.scale.settle_s)
            share, wakeups = watch.cpu_share, watch.wakeups_by_thread()
            self._settled = Settled(watch.seconds, share, wakeups, proc.rss_bytes(pid), proc.pss_bytes(pid))
        return self._settled

    def close(self) -> None:
        self._stack.close()
