"""Requests to a node service -> its answers, or a HostError; probes that answered before the deadline count.

JSON lines over the node's socket (protocol 1). Connections are kept and used again: a look at a node through SSH takes
12 ms and 1.6 ms of CPU with a new channel, 4 ms and 0.5 ms with a kept one (measured).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from sparkd.base import own_time
from sparkd.base.bounded_bytes import Steps
from sparkd.base.errors import HostError, Late, NodeRefused, NotOwner, ProtocolMismatch, Unreachable
from sparkd.base.one_line import clause
from sparkd.hosts.host import Host
from sparkd.model.failure_code import FailureCode

PROTOCOL = 1
MAX_LINE_BYTES = 8 << 20
"""Far above any answer (all processes of a node stay under 100 kB)."""
MAX_ANSWER_BYTES = 4 * MAX_LINE_BYTES
"""All lines of one answer together. The two limits bound the cost of a broken service, also of one that never says `done`."""
MARGIN = 0.1
"""The service gets this fraction less time than we have, so that its own `timeout` answers still arrive."""
REFUSALS: Mapping[FailureCode, type[HostError]] = {
    FailureCode.OWNER: NotOwner,
    FailureCode.VERSION: ProtocolMismatch,
    FailureCode.TIMEOUT: Late,
}
SILENT = "no node service answers; there: `systemctl status sparkd-node.socket`"
BROKE_OFF = "the connection broke off in the middle of an answer"
NONSENSE = (anyio.DelimiterNotFound, ValueError, RecursionError)
"""What reading an answer raises that is none: too long, no JSON, nested without end, a number where a word should be."""
BROKEN = (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One probe without a result: `code` is why (TIMEOUT, FAILED, REFUSED, UNKNOWN), `why` the same in one sentence."""

    code: FailureCode
    why: str


@dataclass(frozen=True, slots=True)
class Probed:
    """What a look at one node brought. The boot identity is empty when the answer broke off before its end."""

    texts: Mapping[str, str]
    errors: Mapping[str, Unreadable]
    boot_id: str = ""
    pid1_ticks: int = 0


@dataclass(frozen=True, slots=True)
class Greeting:
    """The service's `hello`: its version, and the boot identity of its node."""

    service: str
    boot_id: str
    pid1_ticks: int
    hostname: str


class NodeClient:
    """One node's service, asked in the name of `owner`. Calls may run at the same time."""

    def __init__(self, host: Host, owner: str) -> None:
        self._host, self._owner = host, owner
        self._idle: list[_Line] = []
        self._greeting: Greeting | None = None
        self._greeted_on = 0
        self._claimed_for: tuple[str, int] | None = None

    async def greet(self, deadline_s: float = 3.0) -> Greeting:
        """Agrees on the protocol (once per connection) and claims the node for our owner (once per boot of the node).

        Await it before every look: it costs nothing when it is already done.
        Raises ProtocolMismatch, NotOwner, Unreachable, Late.
        """
        connection = self._host.connection
        if self._greeting is not None and self._greeted_on == connection:
            return self._greeting
        hello = await self.call("hello", {}, deadline_s)
        try:
            protocols = [int(version) for version in hello["protocols"]]
            greeting = Greeting(clause(hello["service"]), *_boot(hello), clause(hello["hostname"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ProtocolMismatch(self._host.name, clause(f"its hello makes no sense: {error!r}")) from None
        if PROTOCOL not in protocols:
            raise ProtocolMismatch(
                self._host.name, clause(f"its node service speaks {protocols}, this sparkd {PROTOCOL}")
            )
        if self._claimed_for != (greeting.boot_id, greeting.pid1_ticks):
            await self.call("claim", {"take": False}, deadline_s)
            self._claimed_for = (greeting.boot_id, greeting.pid1_ticks)
        self._greeting, self._greeted_on = greeting, connection
        return greeting

    async def probe(self, requests: Mapping[str, Mapping[str, Any] | None], deadline_s: float) -> Probed:
        """All probes at once; those without an answer in time get the code `timeout`.

        Raises Late and Unreachable only when not one of them answered, NotOwner and ProtocolMismatch when refused.
        """
        collected = _Collected(self._refusal, frozenset(requests))
        asked = [{"name": name, "args": args} if args else {"name": name} for name, args in requests.items()]
        request = self._request(op="probe", probes=asked, deadline_s=deadline_s * (1 - MARGIN))
        missing = Unreadable(FailureCode.FAILED, "the node service left it out")
        try:
            with own_time.fail_after(deadline_s):
                await self._exchange(request, collected.take)
        except TimeoutError:
            missing = Unreadable(FailureCode.TIMEOUT, f"no answer in {deadline_s:g} s")
            if collected.empty:
                raise Late(self._host.name, f"the node service did not answer in {deadline_s:g} s") from None
        except Unreachable as error:
            missing = Unreadable(FailureCode.FAILED, error.why)
            if collected.empty:
                raise
        return collected.result(requests, missing)

    async def call(self, op: str, args: Mapping[str, Any], deadline_s: float) -> Answer:
        """One verb -> its `result`. After Late or Unreachable it may have been done all the same; repeating it is safe.

        Raises NodeRefused with the service's code, NotOwner, ProtocolMismatch, Late, Unreachable.
        """
        answers: list[Answer] = []

        def take(answer: Answer) -> bool:
            answers.append(answer)
            return True

        try:
            with own_time.fail_after(deadline_s):
                await self._exchange(self._request(op=op, args=args, deadline_s=deadline_s * (1 - MARGIN)), take)
        except TimeoutError:
            raise Late(self._host.name, f"{op} did not end in {deadline_s:g} s") from None
        (answer,) = answers
        if answer.get("ok") is not True:
            raise self._refusal(answer)
        result: Answer = answer.get("result") or {}
        return result

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    def _request(self, **fields: Any) -> bytes:
        return json.dumps({"v": PROTOCOL, "owner": self._owner, **fields}, separators=(",", ":")).encode() + b"\n"

    def _refusal(self, answer: Answer) -> HostError:
        code, why = _code(answer), clause(answer.get("error", "refused without a reason"))
        kind = REFUSALS.get(code)
        if kind in (NotOwner, ProtocolMismatch):
            self._greeting = self._claimed_for = None  # what was agreed holds no more: greet again before the next look
        return kind(self._host.name, why) if kind else NodeRefused(self._host.name, why, code)

    async def _exchange(self, request: bytes, take: Callable[[Answer], bool]) -> None:
        """Sends and hands every answer to `take` until it says that it was the last one."""
        while True:
            line = self._idle.pop() if self._idle else await self._dial()
            try:
                await line.exchange(request, take)
            except BROKEN:
                if line.kept and not line.heard:
                    continue  # closed while it was idle, as after an upgrade of the service: take another one
                raise Unreachable(self._host.name, BROKE_OFF if line.heard else SILENT) from None
            except NONSENSE as error:
                why = clause(f"the node service's answer makes no sense: {error}")
                raise Unreachable(self._host.name, why) from None
            finally:
                if line.busy:
                    await line.aclose()
            self._idle.append(line)
            return

    async def _dial(self) -> _Line:
        path = self._host.node_socket()
        try:
            return _Line(await anyio.connect_unix(path))
        except PermissionError:
            why = f"not allowed to open {path}: is this user in group sparkd-svc?"
            raise Unreachable(self._host.name, why) from None
        except OSError:
            raise Unreachable(self._host.name, SILENT) from None


class _Line:
    """One connection. `busy` from a request to its last answer: one that stays busy is out of step, and closed."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._received = BufferedByteReceiveStream(stream)
        self.kept = self.busy = self.heard = False

    async def exchange(self, request: bytes, take: Callable[[Answer], bool]) -> None:
        self.busy, self.heard = True, False
        await self._stream.send(request)
        last, left, steps = False, MAX_ANSWER_BYTES, Steps()
        while not last:
            await steps.step()
            line = await self._received.receive_until(b"\n", MAX_LINE_BYTES)
            left -= len(line)
            if left < 0:
                raise ValueError(f"longer than {MAX_ANSWER_BYTES} bytes")
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError("not an object")
            self.heard = True
            last = take(answer)
        self.busy, self.kept = False, True

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(slots=True)
class _Collected:
    """The answers to one `probe`, so far."""

    refusal: Callable[[Answer], HostError]
    asked: frozenset[str]
    texts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Unreadable] = field(default_factory=dict)
    boot: tuple[str, int] = ("", 0)

    @property
    def empty(self) -> bool:
        return not self.texts and not self.errors

    def take(self, answer: Answer) -> bool:
        if answer.get("ok") is False:
            raise self.refusal(answer)
        if answer.get("done"):
            self.boot = _boot({"boot_id": "", "pid1_ticks": 0, **answer})
            return True
        name = answer.get("probe")
        if not isinstance(name, str) or name not in self.asked:
            raise ValueError(f"it answers what was not asked: {name!r}")
        if "text" in answer:
            self.texts[name] = str(answer["text"]).encode("utf-8", "replace").decode()
        else:
            self.errors[name] = Unreadable(_code(answer), clause(answer.get("error", "no reason given")))
        return False

    def result(self, asked: Iterable[str], missing: Unreadable) -> Probed:
        answered = self.texts.keys() | self.errors.keys()
        errors = self.errors | {name: missing for name in asked if name not in answered}
        return Probed(self.texts, errors, *self.boot)


def _code(answer: Answer) -> FailureCode:
    return FailureCode.read(clause(answer.get("code", "failed")))


def _boot(answer: Answer) -> tuple[str, int]:
    """The boot identity in an answer. Raises ValueError, or KeyError where there is none."""
    boot_id, ticks = answer["boot_id"], answer["pid1_ticks"]
    if not isinstance(boot_id, str) or type(ticks) is not int:
        raise ValueError("it gives no boot identity")
    return clause(boot_id), ticks
