"""A daemon whose loop runs as fast as it can -> how much memory a day's number of cycles would cost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from . import proc
from .bench import Bench
from .clocks import Clocks
from .listeners import read
from .scale import CYCLES_PER_DAY
from .table import Row
from .world import World, world

ALLOWED_MB = 1.0
CLOCKS = Clocks(period_s=0.02, node_deadline_s=4.0, canary_after_s=0.7, gap_s=0.0)
"""A canary every 0.7 s is about one in 24 cycles, as at a period of 5 s and one every 120 s."""
SAMPLE_S = 0.1
"""Each sample is a scrape, so there are as many to a cycle as with a Prometheus that asks every 15 s, or more."""
WARM, BLOCKS = 0.5, 8
"""The first part is left out: caches, pools and the allocator fill up. The rest is cut into blocks."""
T95 = 2.36
"""Student's t for the mean of 7 differences, two sides, 95 %."""
MB = 2**20
COUNT = "sparkd_loop_duration_seconds_count"


@dataclass(frozen=True, slots=True)
class Sample:
    cycle: float
    rss: int


def growth(bench: Bench) -> Iterator[Row]:
    """Memory after a while of serving; scraped meanwhile, with a canary now and then."""
    with world(CLOCKS) as fast:
        began, cpu_s = time.monotonic(), proc.cpu_s(fast.pid)
        samples = _watch(fast, bench.scale.growth_cycles)
        took, cpu_s = time.monotonic() - began, proc.cpu_s(fast.pid) - cpu_s
    cycles = samples[-1].cycle - samples[0].cycle
    grown, within = per_day(samples)
    begun, first, last = (one.rss / MB for one in (samples[0], samples[int(WARM * len(samples))], samples[-1]))
    note = (
        f"{cycles:.0f} cycles in {took:.0f} s, {1000 * cpu_s / cycles:.1f} ms of CPU each; {begun:.2f} MB when it began to "
        f"serve, {first:.2f} MB after the first {WARM:.0%}, which are left out, {last:.2f} MB at the end"
    )
    yield Row(
        benchmark="growth",
        what="growth in 24 h",
        unit="MB",
        value=grown,
        limit=ALLOWED_MB,
        within=within,
        note=note,
    )


def _watch(fast: World, cycles: int) -> list[Sample]:
    host, _, port = fast.layout.page.rpartition(":")
    samples: list[Sample] = []
    while not samples or samples[-1].cycle - samples[0].cycle < cycles:
        samples.append(Sample(_cycles(read((host, int(port)), "/metrics")), proc.rss_bytes(fast.pid)))
        time.sleep(SAMPLE_S)
    return samples


def _cycles(page: str) -> float:
    line = next(line for line in page.splitlines() if line.startswith(COUNT))
    return float(line.split()[1])


def per_day(samples: Sequence[Sample]) -> tuple[float, float]:
    """(MB in 24 h, half of its 95 % interval), from what each block's mean is above the one before: single samples hang
    together far too much for the error of a fitted line to mean anything."""
    steady = samples[int(WARM * len(samples)) :]
    size = len(steady) // BLOCKS
    blocks = [steady[at * size : (at + 1) * size] for at in range(BLOCKS)]
    cycles = fmean([block[-1].cycle - block[0].cycle for block in blocks]) * size / (size - 1)
    means = [fmean([sample.rss for sample in block]) / MB for block in blocks]
    steps = [later - earlier for earlier, later in pairwise(means)]
    scale = CYCLES_PER_DAY / cycles
    return fmean(steps) * scale, T95 * stdev(steps) / math.sqrt(len(steps)) * scale
