"""Connections -> request lines -> answers. One thread a connection; probes and verbs run in threads of their own."""

from __future__ import annotations

import functools
import json
import queue
import socket
import threading
import time
from typing import Any, Iterator, Mapping, Optional, Tuple

from sparkd.node import log, protocol
from sparkd.node.node import Node
from sparkd.node.probes import PROBES
from sparkd.node.refusal import Refusal
from sparkd.node.tasks import Outcome, Tasks
from sparkd.node.verbs import VERBS

MAX_CONNECTIONS = 16
IDLE_S = 600.0
"""A frozen sshd at the other end must not keep its place for ever; the head asks every few seconds."""
SEND_S = 30.0

Answers = Iterator[Mapping[str, Any]]


class Server:
    """Access is by the socket's mode alone (0660, root and its group): whoever can connect may ask."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks = Tasks()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def serve(self, listener: socket.socket) -> None:
        """Never returns; a signal handler ends it by raising."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError as error:  # out of descriptors or memory: that passes, and asking again at once would spin
                log.error(f"cannot accept a connection: {error}")
                time.sleep(0.5)
                continue
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        if not self._slots.acquire(blocking=False):
            refusal = Refusal("refused", f"{MAX_CONNECTIONS} connections are open; try again later")
            with connection:
                _send(connection, self._refused(refusal))
            return
        try:
            threading.Thread(target=self._session, args=(connection,), daemon=True).start()
        except RuntimeError as error:  # no more threads
            log.error(f"cannot serve a connection: {error}")
            connection.close()
            self._slots.release()

    def _session(self, connection: socket.socket) -> None:
        try:
            with connection:
                for line in lines(connection):
                    for answer in self._answers(line):
                        _send(connection, answer)
        except OSError:  # the client went away, or was silent for too long; there is nobody to tell
            return
        finally:
            self._slots.release()

    def _answers(self, line: Optional[bytes]) -> Answers:
        try:
            if line is None:
                raise Refusal("usage", f"a request is one line of at most {protocol.MAX_LINE_BYTES} bytes")
            request = protocol.parse(line)
            self._check(request)
            if request.op == "probe":
                yield from self._probe(request)
            else:
                yield self._act(request)
        except Refusal as refusal:
            yield self._refused(refusal)

    def _check(self, request: protocol.Request) -> None:
        """Version, then verb, then owner. `hello` is answered in any version: it is how versions are found out."""
        if request.version not in protocol.PROTOCOLS and request.op != "hello":
            spoken = ", ".join(map(str, protocol.PROTOCOLS))
            raise Refusal("version", f"this node speaks protocol {spoken}, not {request.version}")
        if request.op != "probe" and request.op not in VERBS:
            raise Refusal("usage", f"unknown op {request.op[:80]!r}")
        if request.op == "probe" or not VERBS[request.op].open:
            self._node.owner.check(request.owner)

    def _probe(self, request: protocol.Request) -> Answers:
        """Each answer as soon as it is there, each deadline on its own; a late result is thrown away."""
        done: queue.SimpleQueue[Tuple[str, Outcome]] = queue.SimpleQueue()
        started = time.monotonic()
        due = {}
        for ask in request.probes:
            try:
                self._start(ask, done)
                due[ask.name] = started + ask.deadline_s
            except Refusal as refusal:
                yield _probe_refused(ask.name, refusal)
        while due:
            try:
                name, outcome = done.get(timeout=max(0.0, min(due.values()) - time.monotonic()))
            except queue.Empty:
                for name in [name for name, at in due.items() if at <= time.monotonic()]:
                    late_s = due.pop(name) - started
                    yield _probe_refused(name, Refusal("timeout", f"no answer in {late_s:g} s"))
                continue
            if due.pop(name, None) is not None:
                yield _probe_answer(name, outcome)
        yield {"done": True, **self._node.signature}

    def _start(self, ask: protocol.Ask, done: queue.SimpleQueue[Tuple[str, Outcome]]) -> None:
        if ask.name not in PROBES:
            raise Refusal("unknown", f"this service ({self._node.signature['service']}) has no such probe")
        work = functools.partial(PROBES[ask.name], ask.args, ask.deadline_s)
        self._tasks.start(f"probe {ask.name}", ask.deadline_s, work, lambda outcome: done.put((ask.name, outcome)))

    def _act(self, request: protocol.Request) -> Mapping[str, Any]:
        """One at a time for the same arguments: a sync on a dead disk must not keep a signal from being sent."""
        done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        what = f"{request.op} {json.dumps(request.args, sort_keys=True)}"
        work = functools.partial(VERBS[request.op].act, self._node, request.owner, request.args, request.deadline_s)
        self._tasks.start(what, request.deadline_s, work, done.put)
        try:
            outcome = done.get(timeout=request.deadline_s)
        except queue.Empty:
            outcome = Outcome(None, Refusal("timeout", f"{request.op} did not end in {request.deadline_s:g} s"))
        if request.op not in ("hello", "read_file"):
            ended = f"{outcome.refusal.code}: {outcome.refusal.error}" if outcome.refusal else json.dumps(outcome.value)
            log.info(f"{what[:500]} for {request.owner[:80]}: {ended[:500]}")
        if outcome.refusal:
            return self._refused(outcome.refusal)
        return {"ok": True, "result": outcome.value, **self._node.signature}

    def _refused(self, refusal: Refusal) -> Mapping[str, Any]:
        return {"ok": False, "code": refusal.code, "error": refusal.error, **self._node.signature}


def lines(connection: socket.socket) -> Iterator[Optional[bytes]]:
    """Request lines without their end. None once for a line that is too long, and for a last one without an end."""
    buffer = b""
    skipping = False
    while True:
        connection.settimeout(IDLE_S)
        part = connection.recv(65536)
        if not part:
            break
        *complete, buffer = (buffer + part).split(b"\n")
        if complete and skipping:
            complete, skipping = complete[1:], False
        for line in complete:
            if line.strip():
                yield line if len(line) <= protocol.MAX_LINE_BYTES else None
        if len(buffer) > protocol.MAX_LINE_BYTES and not skipping:
            yield None
            skipping = True
        if skipping:
            buffer = b""
    if buffer:
        yield None


def _send(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    connection.settimeout(SEND_S)
    connection.sendall(protocol.encode(answer))


def _probe_answer(name: str, outcome: Outcome) -> Mapping[str, Any]:
    return _probe_refused(name, outcome.refusal) if outcome.refusal else {"probe": name, "text": outcome.value}


def _probe_refused(name: str, refusal: Refusal) -> Mapping[str, Any]:
    """A probe's codes are timeout, failed, refused and unknown: wrong arguments are a refusal."""
    code = refusal.code if refusal.code in ("timeout", "failed", "unknown") else "refused"
    return {"probe": name, "error": refusal.error, "code": code}
