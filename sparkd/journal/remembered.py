"""What the journal knows in memory: the rows as they should be, what is not on the disk yet, and the last events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from sparkd.journal.event import Event
from sparkd.journal.rows import TABLES, Batch, Rows

RECENT = 500
"""Events that can be shown while the disk hangs."""
UNWRITTEN = 5_000
"""Events kept for a disk that cannot be written; then the oldest are lost."""
AT_ONCE = 100


class Memory:
    """Shared by the loop and the journal's thread; the lock is only ever held for copying."""

    def __init__(self) -> None:
        self.rows = Rows()
        self._lock = threading.Lock()
        self._pending = Batch()
        self._unwritten: deque[Event] = deque(maxlen=UNWRITTEN)
        self._recent: deque[Event] = deque(maxlen=RECENT)

    def load(self, rows: Rows, recent: Sequence[Event]) -> None:
        """Begin with what the file held; events added while it was read come after them."""
        with self._lock:
            early, self._recent = list(self._recent), deque(recent, RECENT)
            self.rows, self._unwritten = rows, deque(maxlen=UNWRITTEN)
        for event in early:
            self.add(event)

    def put(self, batch: Batch) -> None:
        """Rows to be written, the newest value of each; a None takes the row away."""
        with self._lock:
            for table in TABLES:
                mine, known, new = (getattr(one, table) for one in (self._pending, self.rows, batch))
                mine.update(new)
                known.update({key: text for key, text in new.items() if text is not None})
                for key in [key for key, text in new.items() if text is None]:
                    known.pop(key, None)

    def add(self, event: Event) -> Event:
        """An event to be written, with the next id."""
        with self._lock:
            self.rows.last_event += 1
            event = replace(event, id=self.rows.last_event)
            self._unwritten.append(event)
            self._recent.append(event)
            return event

    def pending(self) -> Batch:
        """A copy of what is not on the disk, with no more events than one transaction should hold."""
        with self._lock:
            return copied(self._pending, islice(self._unwritten, AT_ONCE))

    def written(self, batch: Batch) -> None:
        """This much is on the disk; what changed meanwhile is not."""
        with self._lock:
            for table in TABLES:
                mine, done = getattr(self._pending, table), getattr(batch, table)
                for key, text in done.items():
                    if key in mine and mine[key] == text:
                        del mine[key]
            last = batch.events[-1].id if batch.events else 0
            while self._unwritten and self._unwritten[0].id <= last:
                self._unwritten.popleft()

    def known(self) -> Batch:
        """Every row, for a new file."""
        with self._lock:
            return copied(self.rows, self._recent)

    def merged(
        self, stored: Sequence[Event], deployment: str | None, kind: str | None, limit: int, after_id: int
    ) -> list[Event]:
        """`stored` events and the recent ones that ask for the same, in order, `limit` of them."""
        with self._lock:
            recent = list(self._recent)
        fits = [
            event
            for event in recent
            if event.id > after_id and deployment in (None, event.deployment) and kind in (None, event.kind)
        ]
        found = sorted({event.id: event for event in (*fits, *stored)}.values(), key=lambda event: event.id)
        return found[:limit] if after_id else found[-limit:]


def copied(rows: Rows | Batch, events: Iterable[Event] = ()) -> Batch:
    """All of these rows, to be written."""
    return Batch(**{table: dict(getattr(rows, table)) for table in TABLES}, events=list(events))
