"""The daemon's real listeners, asked at random moments -> how long an answer takes, with all nodes well and with one mute."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from statistics import median

from sparkd.demo.layout import NAME

from .bench import Bench
from .proc import quantile
from .table import Row
from .world import WORKER, BenchError, World

ALLOWED_MS = 50.0
PATHS = ("/metrics", f"/ready/{NAME}", "/api/v1/status")
PAUSE_S = 0.04
"""At most, between two requests: they meet every part of a cycle, and leave the machine free meanwhile."""
DEADLINE_S = 10.0

Place = str | tuple[str, int]
"""A Unix socket's path, or address and port."""


def http(bench: Bench) -> Iterator[Row]:
    """Half of the requests over TCP, half over the Unix socket, each on a connection of its own."""
    bench.settled()
    world = bench.world()
    yield from _rows(world, bench.scale.requests, "all well")
    with world.frozen(f"{WORKER} service"):
        world.until("the worker is unknown", lambda: not _known(world), 60.0)
        yield from _rows(world, bench.scale.requests, "a node mute")
    world.until("the worker is known again", lambda: _known(world), 60.0)


def _known(world: World) -> bool:
    nodes = world.api.get("/api/v1/nodes")["nodes"]
    return any(one["name"] == WORKER and one["state"] == "ok" for one in nodes)


def _rows(world: World, requests: int, situation: str) -> Iterator[Row]:
    host, _, port = world.layout.page.rpartition(":")
    places: tuple[Place, ...] = ((host, int(port)), str(world.layout.socket))
    took: dict[str, list[float]] = {path: [] for path in PATHS}
    for number in range(requests):
        for path in PATHS:
            time.sleep(random.uniform(0, PAUSE_S))
            took[path].append(1000 * ask(places[number % 2], path))
    for path, times in took.items():
        yield Row(
            benchmark="http",
            what=f"{path.replace(NAME, 'NAME')}, {situation}, p99",
            unit="ms",
            value=quantile(times, 0.99),
            limit=ALLOWED_MS,
            spread=f"p50 {median(times):.1f}, least {min(times):.1f}, n {len(times)}",
        )


def ask(place: Place, path: str) -> float:
    """Seconds from dialling to the last byte. Raises BenchError for an answer that is no answer."""
    began = time.monotonic()
    answer = _exchange(place, path)
    took = time.monotonic() - began
    if answer.split(b" ", 2)[1:2] not in ([b"200"], [b"503"]):
        raise BenchError(f"{path} was answered with {answer[:60]!r}")
    return took


def read(place: Place, path: str) -> str:
    """The body of an answer."""
    return _exchange(place, path).partition(b"\r\n\r\n")[2].decode()


def _exchange(place: Place, path: str) -> bytes:
    answer = b""
    with socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(place)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        while part := sock.recv(65536):
            answer += part
    return answer
