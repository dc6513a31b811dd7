"""The API server's view of its engine: requests out, tokens in, and the moment it is dead."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from .metrics import Metrics
from .wire import Lost, Wire


class EngineDead(Exception):
    """vLLM's EngineDeadError: no request can succeed any more."""


class Stream:
    """The tokens of one request, as they come."""

    def __init__(self, engine: EngineClient, request_id: str) -> None:
        self.id = request_id
        self._engine = engine
        self._queue: queue.SimpleQueue[tuple[int, str | None] | None] = queue.SimpleQueue()
        self._started = self._last = time.monotonic()
        self._first = True

    def put(self, item: tuple[int, str | None] | None) -> None:
        self._queue.put(item)

    def take(self, timeout_s: float) -> tuple[int, str | None]:
        """The next tokens and the finish reason, if it is the end; EngineDead or queue.Empty."""
        item = self._queue.get(timeout=timeout_s)
        if item is None:
            raise EngineDead
        now = time.monotonic()
        name = "vllm:time_to_first_token_seconds" if self._first else "vllm:inter_token_latency_seconds"
        self._engine.metrics.observe(name, now - self._last)
        self._first, self._last = False, now
        if item[1]:
            self._engine.metrics.observe("vllm:e2e_request_latency_seconds", now - self._started)
            self._engine.metrics.finish(item[1])
        return item


class EngineClient:
    """One engine core behind a wire. `on_failure` is called when a dead engine made a request's answer a 500."""

    def __init__(self, wire: Wire, metrics: Metrics, on_failure: Callable[[], None]) -> None:
        self.metrics = metrics
        self.dead = False
        self.on_failure = on_failure
        self._wire = wire
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}

    def submit(self, prefix: str, prompt_tokens: int, target: int, reason: str) -> Stream:
        """Starts a request for `target` tokens that ends with `reason`; raises EngineDead."""
        stream = Stream(self, prefix + os.urandom(8).hex())
        with self._lock:
            if self.dead:
                raise EngineDead
            self._streams[stream.id] = stream
        try:
            self._wire.send({"id": stream.id, "prompt": prompt_tokens, "target": target, "reason": reason})
        except Lost:
            raise EngineDead from None
        return stream

    def abort(self, stream: Stream) -> None:
        """The client has gone away, or the answer was cut short."""
        with self._lock:
            if self._streams.pop(stream.id, None) is None:
                return
        self.metrics.finish("abort")
        try:
            self._wire.send({"abort": stream.id})
        except Lost:
            return  # nothing is left to abort

    def report(self, report: dict[str, Any]) -> None:
        """A step's outcome, from the engine core."""
        self.metrics.step(report)
        for request_id, made, reason in report["outputs"]:
            with self._lock:
                stream = self._streams.pop(request_id, None) if reason else self._streams.get(request_id)
            if stream:
                stream.put((made, reason))

    def die(self) -> int:
        """Ends every stream with EngineDead; returns how many there were."""
        with self._lock:
            self.dead = True
            streams = list(self._streams.values())
            self._streams.clear()
        for stream in streams:
            stream.put(None)
        return len(streams)

    @property
    def in_flight(self) -> int:
        with self._lock:
            return len(self._streams)
