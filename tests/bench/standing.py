"""A daemon that serves and is asked nothing -> its memory beside its libraries' own, its CPU time and its wake-ups."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from . import proc
from .bench import Bench
from .table import Row

OWN = "anyio, asyncssh, aiodocker, aiohttp, httpx, structlog, prometheus_client"
LIBRARIES = f"{OWN}, pydantic_settings"
"""The floor: what the required packages take by being imported. Those of `OWN` the daemon has itself; the rest is in the
child that reads the configuration."""
ALLOWED_MB, ALLOWED_CORE_PERCENT, ALLOWED_WAKEUPS = 15.0, 0.3, 2.0
MB = 2**20


def memory(bench: Bench) -> Iterator[Row]:
    """RSS of the whole daemon minus the floor, after the settling time."""
    settled = bench.settled()
    floor, floor_pss = _floor(LIBRARIES)
    rss, pss = settled.rss, settled.pss
    note = f"daemon {rss / MB:.1f} MB, floor {floor / MB:.1f} MB, after {settled.seconds:.0f} s of serving"
    above = (rss - floor) / MB
    yield Row(benchmark="memory", what="RSS above imports", unit="MB", value=above, limit=ALLOWED_MB, note=note)
    if pss is not None and floor_pss is not None:
        note = f"daemon {pss / MB:.1f} MB, floor {floor_pss / MB:.1f} MB; shared pages counted by share"
        yield Row(benchmark="memory", what="PSS above imports", unit="MB", value=(pss - floor_pss) / MB, note=note)
    own, _ = _floor(OWN)
    note = f"floor {own / MB:.1f} MB: only what the daemon itself imports, without what reads its configuration"
    yield Row(benchmark="memory", what="RSS above own imports", unit="MB", value=(rss - own) / MB, note=note)


def _floor(libraries: str) -> tuple[int, int | None]:
    """(RSS, PSS) of a Python with nothing but the imports."""
    code = f"import {libraries}\nprint('ready', flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", text=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        found = proc.rss_bytes(child.pid), proc.pss_bytes(child.pid)
        child.kill()
    return found


def idle(bench: Bench) -> Iterator[Row]:
    """CPU share and wake-ups of the same settling time."""
    settled = bench.settled()
    period = bench.scale.period_s
    per_cycle = settled.cpu_share * period
    note = f"{per_cycle * 1000:.1f} ms of CPU in each period of {period:g} s, over {settled.seconds:.0f} s"
    yield Row(
        benchmark="idle",
        what="CPU, serving",
        unit="% of a core",
        value=100 * settled.cpu_share,
        limit=ALLOWED_CORE_PERCENT,
        note=note,
    )
    rates = sorted(settled.wakeups.values(), reverse=True)
    shown = ", ".join(f"{rate:.2f}" for rate in rates if rate >= 0.01)
    yield Row(
        benchmark="idle",
        what="wake-ups, serving",
        unit="/s",
        value=sum(rates),
        limit=ALLOWED_WAKEUPS,
        note=f"voluntary context switches of all threads, by thread: {shown}",
    )
