"""The journal as the loop sees it: every call ends within its deadline, whatever the disk does.

States and events are kept in memory until they are written; a full, read-only or hung disk only delays that. An intent
is different: when it cannot be written now, the verb must fail and say so (rule 8); it is written at once or taken
back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparkd.base.errors import SparkdError
from sparkd.base.json_codec import Undecodable, encode
from sparkd.journal.disk import DISK_ERRORS, UNREAD, Disk
from sparkd.journal.event import Event
from sparkd.journal.lock import StateLock
from sparkd.journal.moment import Moment, now
from sparkd.journal.records import intent_from, outages_from, state_from, state_text, with_outage
from sparkd.journal.rows import Batch
from sparkd.journal.store import Store
from sparkd.journal.worker import NotAnswered, Worker
from sparkd.model.decision import Intent, State
from sparkd.model.outage import Outage

STARTS_REMEMBERED = 10


class JournalError(SparkdError):
    """The journal could not be read, or an intent not written; the text says why."""


class Journal:
    """One file, journal.db, in the state `folder`. `max_events` and `max_bytes` bound it; `deadline_s` is how long a disk may take.

    `read_only` is true while what was handed in is not on the disk. All methods belong to one event loop.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_events: int = 20_000,
        max_bytes: int = 48 * 1024 * 1024,
        deadline_s: float = 1.0,
        retry_s: float = 5.0,
        moment: Callable[[], Moment] = now,
    ) -> None:
        self.path = folder / "journal.db"
        self._deadline_s, self._retry_s, self._moment = deadline_s, retry_s, moment
        self._disk = Disk(Store(self.path, max_events, max_bytes), StateLock(folder), moment)
        self._memory = self._disk.memory
        self._worker = Worker(self._idle_s, self._disk.write_pending)

    @property
    def read_only(self) -> bool:
        """The disk is full, read-only or does not answer; supervision goes on, verbs are refused."""
        return bool(self._disk.trouble)

    @property
    def trouble(self) -> str:
        """Why it is read only, or nothing."""
        return self._disk.trouble

    def lock(self) -> None:
        """Own the state folder for the life of this process. Raises AlreadyOwned."""
        self._disk.lock.take()

    # --------------------------------------------------------------------------------------------------- open and close

    async def open(self) -> None:
        """Read everything into memory. A damaged file is moved aside and history says so. Raises nothing."""
        try:
            await self._worker.call(lambda job: self._disk.load(), 10 * self._deadline_s)
        except (NotAnswered, *DISK_ERRORS) as error:
            self._disk.trouble = str(error)
            self._worker.poke()
            return
        await self._flush()

    async def aclose(self) -> None:
        """Write what is left, once more within the deadline, and end the thread."""
        await self._flush()
        try:
            await self._worker.call(lambda job: self._disk.store.close(), self._deadline_s)
        except (NotAnswered, *DISK_ERRORS) as error:
            self._disk.trouble = str(error)  # the next sparkd replays SQLite's own log
        self._worker.stop(self._deadline_s)
        self._disk.lock.release()

    async def owner(self) -> str:
        """This sparkd's own id, made once. Raises JournalError when there is none yet and it cannot be kept."""
        self._must_be_loaded()
        try:
            return await self._worker.call(lambda job: self._disk.owner(), 3 * self._deadline_s)
        except (NotAnswered, *DISK_ERRORS) as error:
            raise JournalError(f"no owner id can be read or kept in {self.path.parent}: {error}") from error

    # ---------------------------------------------------------------------------------------------- states and intents

    async def load_states(self) -> dict[str, State]:
        """Every deployment's state, its times on this boot's clock. Raises JournalError when the file was not read."""
        loaded, states = self._must_be_loaded(), {}
        for name, text in self._memory.rows.states.items():
            try:
                states[name] = state_from(text, loaded)
            except (Undecodable, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                await self._note("state-unreadable", name, f"the saved state cannot be read ({error}): looking afresh")
        for name, generation in self._memory.rows.generations.items():
            # Its row is lost, in both copies: what history tells is below no generation that was started (rule 4).
            states.setdefault(name, State(highest=generation))
        return states

    async def load_intents(self) -> dict[str, Intent]:
        """What people wanted. Raises JournalError when the file was not read: unknown must not become a default."""
        self._must_be_loaded()
        intents = {}
        for name, text in self._memory.rows.intents.items():
            try:
                intents[name] = intent_from(text)
            except (Undecodable, ValueError, RecursionError) as error:
                await self._note("intent-unreadable", name, f"what was wanted of it cannot be read ({error})")
                intents[name] = UNREAD
        return intents

    @property
    def intents_lost(self) -> bool:
        """Both the file and its spare were damaged so that not even names are known: anything may have been wanted."""
        return self._memory.rows.intents_lost

    async def save_state(self, name: str, state: State, ended: Outage | None = None) -> None:
        """On the disk when this returns, or in memory and `read_only` tells; with the record of an outage that `ended` in the
        same transaction: neither is ever there without the other. Raises nothing."""
        outages = with_outage(self._memory.rows.outages, name, ended) if ended is not None else {}
        self._memory.put(Batch(states={name: state_text(state, self._moment())}, outages=outages))
        await self._flush()

    def outages(self) -> list[tuple[str, Outage]]:
        """(deployment, outage) of those that ended, in the order in which they began."""
        return outages_from(self._memory.rows.outages)

    async def save_intent(self, name: str, intent: Intent) -> None:
        """On the disk when this returns. Raises JournalError when it is not, and then it will not be later either."""
        text, before = json.dumps(encode(intent)), self._memory.rows.intents.get(name)
        try:
            await self._worker.call(
                lambda job: self._disk.write(Batch(intents={name: text}), job.wanted),
                3 * self._deadline_s,
                undo=lambda: self._disk.take_back(name, before),
            )
        except (NotAnswered, *DISK_ERRORS) as error:
            raise JournalError(f"it cannot be written to {self.path}: {error}") from error
        self._memory.rows.intents[name] = text

    async def remember(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep one JSON object across restarts, as reliable as a state."""
        self._memory.put(Batch(meta={f"note:{key}": json.dumps(value)}))
        await self._flush()

    def recall(self, key: str) -> dict[str, Any] | None:
        """What was remembered under this key, or None."""
        try:
            found = json.loads(self._memory.rows.meta.get(f"note:{key}") or "null")
        except (ValueError, RecursionError):
            return None  # of a sparkd that kept no checksums: a note is worth no more
        return found if isinstance(found, dict) else None

    # --------------------------------------------------------------------------------------------------------- history

    async def record(self, event: Event) -> Event:
        """Add to history; returns the event with its id. Raises nothing."""
        event = self._memory.add(event)
        await self._flush()
        return event

    async def history(self, deployment: str | None = None, limit: int = 100, after_id: int = 0) -> list[Event]:
        """The last `limit` events in order, or the first `limit` after `after_id`; from memory while the disk hangs."""
        return await self._events(deployment, None, limit, after_id)

    async def last(self, deployment: str, kind: str) -> Event | None:
        """The last event of a kind."""
        return next(reversed(await self._events(deployment, kind, 1, 0)), None)

    async def stage_times(self, name: str) -> list[dict[str, float]]:
        """Stage durations (seconds) of the last starts that ended serving, newest last (the events' `stages`)."""
        events = await self._events(name, "serving", STARTS_REMEMBERED, 0)
        stages = [event.data.get("stages") for event in events]
        known = [one for one in stages if isinstance(one, dict)]
        return [{key: float(value) for key, value in one.items() if isinstance(value, int | float)} for one in known]

    async def _events(self, deployment: str | None, kind: str | None, limit: int, after_id: int) -> list[Event]:
        try:
            stored = await self._worker.call(
                lambda job: self._disk.store.history(deployment, kind, limit, after_id), self._deadline_s
            )
        except (NotAnswered, *DISK_ERRORS):
            stored = []  # what is still in memory is better than no answer
        return self._memory.merged(stored, deployment, kind, limit, after_id)

    async def _note(self, reason: str, name: str, sentence: str) -> None:
        self._disk.tell(reason, sentence, name)
        await self._flush()

    def _must_be_loaded(self) -> Moment:
        if self._disk.loaded is None:
            raise JournalError(f"{self.path} could not be read: {self._disk.trouble or 'it was not opened'}")
        return self._disk.loaded

    async def _flush(self) -> None:
        """Wait for the disk once; a disk that is known to be bad is tried again by the thread, and nobody waits."""
        if self._disk.trouble:
            return
        try:
            await self._worker.call(lambda job: self._disk.write_pending(), self._deadline_s)
        except NotAnswered as error:
            self._disk.trouble = str(error)
            self._worker.poke()

    def _idle_s(self) -> float | None:
        return self._retry_s if self._disk.trouble else None
