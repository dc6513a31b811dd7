"""Connections -> request lines -> answers. One thread a connection; probes and verbs run in threads of their own."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import select
import socket
import threading
import time
from typing import Any, Iterator, Mapping, Optional, Tuple

from sparkd.node import log, protocol
from sparkd.node.node import Node
from sparkd.node.probes import PROBES
from sparkd.node.refusal import Refusal
from sparkd.node.tasks import Outcome, Tasks
from sparkd.node.verbs import OPERATIONS

MAX_CONNECTIONS = 16
IDLE_S = 600.0
"""A frozen sshd at the other end must not keep its place for ever; the head asks every few seconds."""
SEND_S = 30.0
GIVES_WAY_S = 30.0
"""A connection silent for longer than this ends when all places are taken and another one comes: behind a network that
comes and goes, dead sshds hold one place each, and the head would be refused for ten minutes."""
SILENT = frozenset(("hello", "read_file", "rank_log", "inspect_rank"))
"""Verbs that change nothing are not worth a line in the journal."""

Answers = Iterator[Mapping[str, Any]]


class Server:
    """Access is by the socket's mode alone (0660, root and its group): every client that can connect may ask."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks = Tasks()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._waiting: dict[socket.socket, float] = {}
        """Connections without a request in work -> since when. The thread that takes one out serves or closes it."""

    def serve(self, listener: socket.socket, ends: socket.socket) -> None:
        """Until there is something to read from `ends`."""
        listener.setblocking(False)
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(ends, select.POLLIN)
        while ends.fileno() not in dict(poll.poll()):
            try:
                connection, _ = listener.accept()
            except BlockingIOError:  # it went away before it was taken
                continue
            except OSError as error:  # out of descriptors or memory: that passes, and asking again at once would spin
                log.error(f"cannot accept a connection: {error}")
                time.sleep(0.5)
                continue
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        if not self._slots.acquire(blocking=False) and not self._make_room():
            refusal = Refusal("refused", f"{MAX_CONNECTIONS} connections are open; try again later")
            with connection, contextlib.suppress(OSError):  # gone already: it must not end the service for the others
                _send(connection, self._refused(refusal))
            return
        self._waiting[connection] = time.monotonic()
        try:
            threading.Thread(target=self._session, args=(connection,), daemon=True).start()
        except RuntimeError as error:  # no more threads
            log.error(f"cannot serve a connection: {error}")
            self._waiting.pop(connection, None)
            connection.close()
            self._slots.release()

    def _make_room(self) -> bool:
        """Ends the connection that has been silent for longest; whether its place could be taken. The head dials again."""
        silent_since, silent = min(
            ((at, one) for one, at in list(self._waiting.items())), default=(0.0, None), key=_first
        )
        if silent is None or time.monotonic() - silent_since < GIVES_WAY_S or self._waiting.pop(silent, None) is None:
            return False
        try:
            silent.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has just ended by itself
            pass
        return self._slots.acquire(timeout=1.0)

    def _session(self, connection: socket.socket) -> None:
        try:
            with connection:
                for line in lines(connection):
                    if self._waiting.pop(connection, None) is None:
                        return  # it gave way at this very moment: without a client to answer, nothing is done
                    for answer in self._answers(line):
                        _send(connection, answer)
                    self._waiting[connection] = time.monotonic()
        except OSError:  # the client went away, or was silent for too long; there is nobody to tell
            return
        finally:
            self._waiting.pop(connection, None)
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
        if request.op != "probe" and request.op not in OPERATIONS:
            raise Refusal("usage", f"unknown op {request.op[:80]!r}")
        if request.op == "probe" or not OPERATIONS[request.op].open:
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
        about = json.dumps(ask.args, sort_keys=True)
        self._tasks.start(
            f"probe {ask.name}", about, ask.deadline_s, work, lambda outcome: done.put((ask.name, outcome))
        )

    def _act(self, request: protocol.Request) -> Mapping[str, Any]:
        """One at a time for the same arguments: a sync on a dead disk must not keep a signal from being sent."""
        done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        shown = f"{request.op} {json.dumps(_shown(request.args), sort_keys=True)}"
        work = functools.partial(
            OPERATIONS[request.op].act, self._node, request.owner, request.args, request.deadline_s
        )
        about = json.dumps(request.args, sort_keys=True)
        self._tasks.start(request.op, about, request.deadline_s, work, done.put)
        try:
            outcome = done.get(timeout=request.deadline_s)
        except queue.Empty:
            outcome = Outcome(None, Refusal("timeout", f"{request.op} did not end in {request.deadline_s:g} s"))
        if request.op not in SILENT:
            ended = f"{outcome.refusal.code}: {outcome.refusal.error}" if outcome.refusal else json.dumps(outcome.value)
            log.info(f"{shown[:500]} for {request.owner[:80]}: {ended[:500]}")
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


def _shown(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments as they may be logged: of secrets only the names, of a script that it was one."""
    secrets, shown = args.get("secrets"), dict(args)
    if isinstance(secrets, dict):
        shown["secrets"] = sorted(secrets)
    if isinstance(shown.get("script"), str):
        shown["script"] = f"{len(shown['script'])} characters"
    return shown


def _send(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    line = protocol.encode(answer)
    if len(line) > protocol.MAX_ANSWER_BYTES:
        line = protocol.encode(_too_long(answer, len(line)))
    connection.settimeout(SEND_S)
    connection.sendall(line)


def _too_long(answer: Mapping[str, Any], size: int) -> Mapping[str, Any]:
    """In place of an answer that the head would take for rubbish, and with it all that were asked for at once."""
    refusal = Refusal("failed", f"the answer has {size} bytes, more than {protocol.MAX_ANSWER_BYTES}")
    if "probe" in answer:
        return _probe_refused(answer["probe"], refusal)
    signature = {key: value for key, value in answer.items() if key not in ("ok", "result")}
    return {"ok": False, "code": refusal.code, "error": refusal.error, **signature}


def _first(pair: Tuple[float, Optional[socket.socket]]) -> float:
    return pair[0]


def _probe_answer(name: str, outcome: Outcome) -> Mapping[str, Any]:
    return _probe_refused(name, outcome.refusal) if outcome.refusal else {"probe": name, "text": outcome.value}


def _probe_refused(name: str, refusal: Refusal) -> Mapping[str, Any]:
    """A probe's codes are timeout, failed, refused and unknown: wrong arguments are a refusal."""
    code = refusal.code if refusal.code in ("timeout", "failed", "unknown") else "refused"
    return {"probe": name, "error": refusal.error, "code": code}
