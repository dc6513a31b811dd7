"""The longest step of the loop while an engine, or two hundred clients, mean harm; and what `ctl` gets to hear meanwhile.

A step is judged by its CPU time: the clock also counts what others do on the machine, the clients of this benchmark first.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import anyio

from sparkd import http
from sparkd.base import bounded_bytes as stream_bounds
from sparkd.base.errors import SparkdError
from sparkd.engines import ENGINES

from .bench import Bench
from .hostile import KINDS, engine
from .longest import Longest
from .scale import Scale
from .table import Row
from .world import ROOT, World

ALLOWED_MS = 100.0
CTL_MS = 1000.0
CLIENTS, PIPELINED = 200, 60
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * PIPELINED
ANSWER_S, PAGE_S = 3.0, 1.5
SITUATIONS = (("read all", True, 2), ("read nothing", False, 2), ("read all and share an address", True, 1))
"""What they do, whether they read, and from how many addresses they come. One address has 128 places: from two all get in, from
one the rest are refused, and dial again at once."""


def steps(bench: Bench) -> Iterator[Row]:
    yield from _engines()
    bench.settled()
    world = bench.world()
    for what, reads, addresses in SITUATIONS:
        yield from _clients(world, what, reads, addresses, bench.scale)


# ------------------------------------------------------------------------------------------------------ hostile engines


def _engines() -> Iterator[Row]:
    """Each kind of answer, to a completion and as a page of metrics, asked by a process with nothing else on its loop."""
    with engine() as url:
        argv = [sys.executable, "-m", "tests.bench.steps", url]
        done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300)
    found = json.loads(done.stdout)
    worst = max(found, key=lambda kind: float(found[kind]["cpu_ms"]))
    said = ", ".join(f"{kind} {one['cpu_ms']:.1f}" for kind, one in found.items())
    yield Row(
        benchmark="steps",
        what=f"longest step, {len(found)} hostile engines",
        unit="ms",
        value=found[worst]["cpu_ms"],
        limit=ALLOWED_MS,
        spread=f"{worst}; by the clock {max(one['ms'] for one in found.values()):.0f}",
        note=said,
    )


async def _ask(url: str) -> dict[str, dict[str, float]]:
    found, longest = {}, Longest()
    with suppress(SparkdError):
        await http.health(url, "/health", 1.0)  # makes the client, once in a daemon's life
    for kind in KINDS:
        longest.begin()
        await http.complete(f"{url}/{kind}", "/v1/completions", {}, ANSWER_S)
        with suppress(SparkdError):
            await stream_bounds.parsed(
                ENGINES["vllm"].metrics, await http.metrics_text(f"{url}/{kind}", "/metrics", PAGE_S)
            )
        found[kind] = longest.end()
    return found


# ------------------------------------------------------------------------------------------------------ hostile clients


def _clients(world: World, what: str, reads: bool, addresses: int, scale: Scale) -> Iterator[Row]:
    """Each asks sixty times at once, and again after a while."""
    host, _, port = world.layout.page.rpartition(":")
    waits, ages = list[float](), list[float]()
    with _flood((host, int(port)), reads, addresses) as flood, _measured(world) as longest:
        end = time.monotonic() + scale.flood_s
        while time.monotonic() < end:
            began = time.monotonic()
            ages.append(float(world.api.get("/api/v1/status")["daemon"]["loop_age_s"]))
            waits.append(1000 * (time.monotonic() - began))
            time.sleep(0.1)
    clients = f"{CLIENTS} clients that {what}"
    yield Row(
        benchmark="steps",
        what=f"longest step, {clients}",
        unit="ms",
        value=longest["cpu_ms"],
        limit=ALLOWED_MS,
        spread=f"by the clock {longest['ms']:.0f}, of {longest['count']:.0f} steps",
        note=f"{flood.read_bytes >> 20} MiB of answers read in {scale.flood_s:g} s, {flood.refused} connections closed",
    )
    yield Row(
        benchmark="steps",
        what=f"status on the Unix socket, {clients}, worst",
        unit="ms",
        value=max(waits),
        limit=CTL_MS,
    )
    late = max(0.0, 1000 * (max(ages) - scale.period_s))
    yield Row(benchmark="steps", what=f"loop late by, {clients}", unit="ms", value=late)


@contextmanager
def _measured(world: World) -> Iterator[dict[str, float]]:
    """The daemon measures its own steps from one SIGUSR1 to the next (`tests.bench.head`)."""
    found: dict[str, float] = {}
    file = world.layout.folder / "steps.json"
    file.unlink(missing_ok=True)
    os.kill(world.pid, signal.SIGUSR1)
    yield found
    os.kill(world.pid, signal.SIGUSR1)
    world.until("the daemon tells its longest step", file.exists, 30.0)
    found |= json.loads(file.read_text("utf-8"))


@dataclass(slots=True)
class Flood:
    """What the clients got."""

    read_bytes: int = 0
    refused: int = 0
    """Connections that the daemon closed."""
    opened: dict[socket.socket, float] = field(default_factory=dict)
    """And when each asked last."""


@contextmanager
def _flood(place: tuple[str, int], reads: bool, addresses: int) -> Iterator[Flood]:
    """The clients, in a thread."""
    ended, flood = threading.Event(), Flood()
    thread = threading.Thread(target=_keep_asking, args=(place, reads, addresses, ended, flood))
    thread.start()
    try:
        yield flood
    finally:
        ended.set()
        thread.join()


def _keep_asking(place: tuple[str, int], reads: bool, addresses: int, ended: threading.Event, flood: Flood) -> None:
    opened = flood.opened
    turn = itertools.cycle(f"127.0.0.{2 + number}" for number in range(addresses))
    with selectors.DefaultSelector() as selector:
        while not ended.is_set():
            while len(opened) < CLIENTS:
                one = socket.create_connection(place, timeout=10.0, source_address=(next(turn), 0))
                one.setblocking(False)
                selector.register(one, selectors.EVENT_READ)
                opened[one] = 0.0
            for one, asked in list(opened.items()):
                if time.monotonic() - asked > 3.0:
                    opened[one] = time.monotonic()
                    with suppress(OSError):
                        one.send(REQUEST)
            for key, _ in selector.select(0.1) if reads else ():
                _take(key.fileobj, flood, selector)
            if not reads:
                ended.wait(0.1)
        for one in opened:
            one.close()


def _take(one: object, flood: Flood, selector: selectors.BaseSelector) -> None:
    """Read some; one that was closed is forgotten, and another is opened."""
    assert isinstance(one, socket.socket)
    try:
        part = one.recv(1 << 18)
    except BlockingIOError:
        return
    except OSError:
        part = b""
    flood.read_bytes += len(part)
    if not part:
        flood.refused += 1
        selector.unregister(one)
        del flood.opened[one]
        one.close()


if __name__ == "__main__":
    print(json.dumps(anyio.run(_ask, sys.argv[1])))
