"""Two statuses, one after the other, turned into notices of what changed between them, and those delivered.

Delivery has its own tasks and bounded queues: a receiver that hangs holds up neither the loop nor another receiver.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sparkd.base import clock
from sparkd.base.errors import SparkdError
from sparkd.drift.report import EVENT as DRIFT
from sparkd.drift.report import GONE
from sparkd.journal import Event
from sparkd.model.config import Notify
from sparkd.model.words import between, duration, rfc3339, stopped
from sparkd.reporting.delivery import call, post
from sparkd.reporting.metrics import Counters
from sparkd.reporting.node_upkeep import NOTICES, as_known, planned, planned_stop, quiet

log = structlog.get_logger("sparkd.reporting.notices")

Json = Mapping[str, Any]
Send = Callable[[bytes], Awaitable[None]]

ASKED = ("operator", "config")
"""Causes of a start that a person wanted: what stops for it is not down."""
NONSENSE_FIX = "sparkd ctl drift {0} says what differs from when it made sense; sparkd ctl restart {0} starts it anew"
WINDOW_FULL = "budget-pause"
"""Signature of the notice about a deployment that has used up its automatic starts for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notice; the fields are those of the webhook's body. `at` is RFC 3339, `outage_s` seconds."""

    kind: str
    """down | recovered | held | node_lost | node_back | memory | budget | drift | maintenance | power | test"""
    cluster: str
    at: str
    sentence: str
    deployment: str | None = None
    node: str | None = None
    cls: str | None = None
    signature: str | None = None
    generation: int | None = None
    outage_s: float | None = None
    fix: str | None = None

    def body(self) -> bytes:
        """What is sent, byte for byte what the signature covers."""
        fields = asdict(self)
        fields["class"] = fields.pop("cls")
        return json.dumps({"schema": 1, **fields}).encode()


# -------------------------------------------------------------------------------------------------------------- edges


def edges(before: Json | None, after: Json, notice_after_s: float = 60.0) -> tuple[Notification, ...]:
    """What is worth telling between two statuses, each edge once. `before` is None at the very first status.

    Down: something that is wanted up stopped serving, or failed to start, and nobody asked for that. It stays down
    through every failing restart until it serves. Held: sparkd gave up. A node is lost when it was silent for
    `notice_after_s`, and back when it answers; a shorter silence is no news. Budget: the next start waits for its window.
    Of a node under maintenance, and of what has a rank there, nothing is told, until it is over.
    """
    silenced, ended = planned(after), (planned(before) if before else frozenset()) - planned(after)
    was = {
        one["name"]: as_known(one) if quiet(one, ended) else one for one in (before["deployments"] if before else ())
    }
    nodes = {one["name"]: as_known(one) if one["name"] in ended else one for one in (before["nodes"] if before else ())}
    groups = [one for one in after["deployments"] if not quiet(one, silenced)]
    boxes = [one for one in after["nodes"] if one["name"] not in silenced]
    return (
        *(note for one in groups for note in _deployment(was.get(one["name"]), one, after)),
        *(note for one in boxes for note in _node(nodes.get(one["name"]), one, before, after, notice_after_s)),
    )


def _deployment(was: Json | None, now: Json, after: Json) -> Iterator[Notification]:
    note = partial(
        Notification,
        cluster=after["cluster"],
        at=after["at"],
        deployment=now["name"],
        generation=now["generation"] or None,
    )
    if was is not None and is_down(now) and not is_down(was) and now["phase"] not in ("paused", "adopting"):
        failure = now["last_failure"] if _open_failure(now) else None
        text = failure["text"] if failure else now["sentence"]
        cause = (
            {"cls": failure["class"], "signature": failure["signature"]} if failure else {"signature": now["reason"]}
        )
        fix = NONSENSE_FIX.format(now["name"]) if cause["signature"] == "nonsense" else None
        yield note(kind="down", sentence=stopped(f"{now['name']} does not serve: {text}"), fix=fix, **cause)
    if was is not None and is_down(was) and now["serving"]:
        outage = _outage_s(was, now)
        lasted = f" after {duration(outage)}" if outage is not None else ""
        yield note(kind="recovered", sentence=f"{now['name']} serves again{lasted}.", outage_s=outage)
    if was is not None and now["budget_until"] and not was.get("budget_until"):
        fix = f"sparkd ctl why {now['name']}; sparkd ctl release {now['name']} starts it at once"
        text = stopped(f"{now['name']} waits: {now['sentence']}")
        yield note(kind="budget", sentence=text, signature=WINDOW_FULL, fix=fix)
    hold = now["hold"]
    if planned_stop(now):
        return  # for a moment also when that is over: it goes on with the next look
    if hold and not (was and was["hold"] and was["hold"]["fact"] == hold["fact"]):
        text = stopped(f"{now['name']} is held: {hold['text']}")
        yield note(kind="held", sentence=text, cls=hold["class"], signature=hold["fact"], fix=hold["fix"] or None)


def is_down(deployment: Json) -> bool:
    """Wanted up, not serving, and not because a person asked for it: a failure is open, or it is suspected."""
    if deployment["wanted"] != "up" or deployment["serving"] or deployment["phase"] == "stopped":
        return False
    lost = deployment["down_since"] is not None and deployment["cause"] not in (*ASKED, None)
    return deployment["phase"] == "serve" or _open_failure(deployment) or lost


def _open_failure(deployment: Json) -> bool:
    """The last failure has not been made good: its outage is filled in when it serves again."""
    return deployment["last_failure"] is not None and deployment["last_failure"]["outage_s"] is None


def _outage_s(was: Json, now: Json) -> float | None:
    """How long it lasted, by its record, which ended between these two."""
    ended = now["last_outage"]
    return float(ended["seconds"]) if ended is not None and ended != was.get("last_outage") else None


def _node(was: Json | None, now: Json, before: Json | None, after: Json, notice_s: float) -> Iterator[Notification]:
    lost_before = was is not None and before is not None and _silent(was, before["at"], notice_s)
    note = partial(Notification, cluster=after["cluster"], at=after["at"], node=now["name"])
    if _silent(now, after["at"], notice_s) and not lost_before:
        text = f"{now['name']} could not be asked for {duration(notice_s)}: {now['why']}. Unknown is not down"
        yield note(kind="node_lost", sentence=stopped(text), signature=now.get("code"))
    yield from _memory(was, now, note)
    if lost_before and now["state"] == "ok":
        silent = between(was["since"], after["at"]) if was else None
        lasted = f" after {duration(silent)}" if silent is not None else ""
        yield note(kind="node_back", sentence=f"{now['name']} answers again{lasted}.", outage_s=silent)


def _memory(was: Json | None, now: Json, note: Callable[..., Notification]) -> Iterator[Notification]:
    """Each time in which memory runs out or drains, when it begins; not where a group was stopped for it: that is down."""
    told = {one["kind"] for one in was.get("memory_alerts", ())} if was is not None else set()
    for one in now["memory_alerts"]:
        if one["kind"] not in told and not one["acted"]:
            about = {"cls": "resource", "signature": f"memory-{one['kind']}"}
            yield note(kind="memory", sentence=stopped(one["text"]), fix=one["fix"] or None, **about)


def drifted(cluster: str, event: Event) -> Iterator[Notification]:
    """That what runs has become different from what worked; an event, since a status only counts the differences."""
    if event.kind == DRIFT and event.reason != GONE:
        yield Notification(
            kind=DRIFT,
            cluster=cluster,
            at=rfc3339(event.at),
            deployment=event.deployment,
            sentence=stopped(f"{event.deployment} {event.sentence}"),
            signature=event.reason,
            generation=event.generation or None,
            fix=f"sparkd ctl drift {event.deployment}",
        )


def of_nodes(cluster: str, event: Event) -> Iterator[Notification]:
    """Planned work that is over, and every use of a power hook: events, since a status may show neither for long."""
    if event.kind in NOTICES:
        yield Notification(
            kind=NOTICES[event.kind],
            cluster=cluster,
            at=rfc3339(event.at),
            node=str(event.data.get("node")),
            sentence=stopped(event.sentence),
            signature=f"{event.kind} {rfc3339(event.at)}",
        )


def _silent(node: Json, at: str, notice_s: float) -> bool:
    lasted = between(node["since"], at)
    return node["state"] == "unknown" and lasted is not None and lasted >= notice_s


# ----------------------------------------------------------------------------------------------------------- delivery

Channel = tuple[Send, MemoryObjectSendStream[Notification], MemoryObjectReceiveStream[Notification]]
"""How it is delivered, and the queue of what is to be, from both ends."""


class Notifier:
    """Delivers notices to the webhook and the hooks of `notify`. `run` is a task of the daemon; `offer` never waits."""

    def __init__(
        self,
        notify: Notify,
        counters: Counters,
        *,
        tries: int = 5,
        first_pause_s: float = 2.0,
        deadline_s: float = 10.0,
        queued: int = 100,
        quiet_s: float = 3600.0,
    ) -> None:
        self._counters, self._tries, self._first_pause_s = counters, tries, first_pause_s
        self._deadline_s, self._quiet_s, self._queued = deadline_s, quiet_s, queued
        self._channels: dict[str, Channel] = {}
        self._group: TaskGroup | None = None
        self._said: dict[str, tuple[str, str | None, float]] = {}
        self.configure(notify)

    def configure(self, notify: Notify) -> None:
        """Deliver to these from now on; what is queued for those before is still delivered to them."""
        channels: dict[str, Send] = {}
        if notify.webhook is not None:
            channels["webhook"] = partial(post, notify.webhook, deadline_s=self._deadline_s)
        for number, program in enumerate(notify.exec, 1):
            channels[f"exec-{number}"] = partial(call, (program,), deadline_s=self._deadline_s)
        for _, into, _ in self._channels.values():
            into.close()
        self._channels = {
            name: (send, *anyio.create_memory_object_stream[Notification](self._queued))
            for name, send in channels.items()
        }
        self._begin()

    def offer(self, note: Notification) -> None:
        """Queue for every channel. What was said of the same thing less than `quiet_s` ago is not said again."""
        about = note.deployment or note.node or ""
        kind, signature, at = self._said.get(about, ("", None, 0.0))
        if note.kind != "test":
            if (kind, signature) == (note.kind, note.signature) and clock.now() - at < self._quiet_s:
                return
            self._said[about] = (note.kind, note.signature, clock.now())
        for name, (_, send, _) in self._channels.items():
            try:
                send.send_nowait(note)
            except anyio.WouldBlock:
                self._counters.notified(name, "dropped")
                log.warning("too many notices wait; one is dropped", channel=name, kind=note.kind)

    @property
    def waiting(self) -> dict[str, int]:
        """Notices not taken up yet, by channel."""
        return {name: queue.statistics().current_buffer_used for name, (_, _, queue) in self._channels.items()}

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with anyio.create_task_group() as self._group:
            self._begin()
            await anyio.sleep_forever()

    def _begin(self) -> None:
        if self._group is not None:
            for name, (send, _, queue) in self._channels.items():
                self._group.start_soon(self._deliver, name, send, queue)

    def close(self) -> None:
        """What is still queued is given up."""
        for _, send, queue in self._channels.values():
            send.close()
            queue.close()

    async def _deliver(self, name: str, send: Send, queue: MemoryObjectReceiveStream[Notification]) -> None:
        with queue:
            async for note in queue:
                outcome = "sent" if await self._try(name, send, note.body()) else "failed"
                self._counters.notified(name, outcome)
                log.info("notice", channel=name, kind=note.kind, deployment=note.deployment, outcome=outcome)

    async def _try(self, name: str, send: Send, body: bytes) -> bool:
        pause = self._first_pause_s
        for left in range(self._tries - 1, -1, -1):
            try:
                await send(body)
                return True
            except (SparkdError, OSError, ValueError) as error:  # ValueError: a path or an address that can be none
                log.warning("a notice was not delivered", channel=name, why=str(error), tries_left=left)
            if left:
                await anyio.sleep(pause)
                pause *= 2
        return False
