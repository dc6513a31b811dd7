"""What everybody may read, rendered once for each state of affairs and served as copies: a thousand readers cost what one does.

What time alone changes (ages, `at`, the verdict) is filled in when a copy is served, so that a loop that stands still shows on
every page.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any

from sparkd.model.view import ClusterView
from sparkd.model.words import headline, rfc3339
from sparkd.reporting.status import status

Json = Mapping[str, Any]
Fill = Callable[[ClusterView], str]
"""What stands at one place of a page, by the view of the moment in which it is served."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A rendered page: its pieces, and between each two of them what is filled in."""

    pieces: tuple[bytes, ...]
    fills: tuple[Fill, ...]

    def served(self, now: ClusterView) -> bytes:
        """The page of this moment."""
        parts = [self.pieces[0]]
        for fill, piece in zip(self.fills, self.pieces[1:], strict=True):
            parts += (fill(now).encode(), piece)
        return b"".join(parts)


class Blanks:
    """Numbers that hold a place in a rendered page for a value that is filled in later. JSON and the formats of Prometheus
    write such a number alike. Its digits are random, so no value of an engine can be mistaken for one."""

    def __init__(self) -> None:
        self._fills: dict[bytes, Fill] = {}

    def number(self, fill: Fill) -> float:
        """A blank for this."""
        blank = float(f"{10**14 + secrets.randbelow(9 * 10**14)}e-300")
        self._fills[repr(blank).encode()] = fill
        return blank

    def age(self, since: float) -> float:
        """A blank for the seconds since then (daemon's clock)."""
        return self.number(lambda now: repr(round(max(0.0, now.at - since), 1)))

    def copy(self, page: bytes) -> Copy:
        """The page, cut at every blank in it."""
        if not self._fills:
            return Copy((page,), ())
        cut = re.split(b"(" + b"|".join(map(re.escape, self._fills)) + b")", page)
        return Copy(tuple(cut[::2]), tuple(self._fills[blank] for blank in cut[1::2]))


class Picture:
    """What is shown of one state of affairs. `found` is the status of the moment in which it was made."""

    def __init__(self, view: ClusterView) -> None:
        self.found = status(view)
        self.blanks = Blanks()
        self._at = view.at

    @cached_property
    def blanked(self) -> Json:
        """The status with a blank for everything that time alone changes."""
        found, blanks = self.found, self.blanks
        loop_age = blanks.number(lambda now: repr(round(now.daemon.loop_age_s, 3)))
        return {
            **found,
            "at": blanks.number(lambda now: json.dumps(rfc3339(now.wall))),
            "daemon": {**found["daemon"], "loop_age_s": loop_age},
            "deployments": [{**one, "ranks": [*map(self._rank, one["ranks"])]} for one in found["deployments"]],
            "verdict": blanks.number(self._verdict),
        }

    @cached_property
    def page(self) -> Copy:
        """As JSON, on one line."""
        return self._copy(self.blanked)

    @cached_property
    def nodes(self) -> Copy:
        """The nodes alone, as JSON."""
        return self._copy({name: self.blanked[name] for name in ("schema", "at", "nodes")})

    def _copy(self, body: Json) -> Copy:
        return self.blanks.copy(json.dumps(body, separators=(",", ":"), default=str).encode() + b"\n")

    def _rank(self, rank: Json) -> Json:
        age = rank["evidence_age_s"]
        return rank if age is None else {**rank, "evidence_age_s": self.blanks.age(self._at - age)}

    def _verdict(self, now: ClusterView) -> str:
        return self._said(rfc3339(now.wall), round(now.daemon.loop_age_s))

    @cached_property
    def _said(self) -> Callable[[str, int], str]:
        @lru_cache(maxsize=1)  # it speaks in whole seconds
        def said(at: str, loop_age_s: int) -> str:
            daemon = {**self.found["daemon"], "loop_age_s": loop_age_s}
            return json.dumps(headline({**self.found, "at": at, "daemon": daemon}))

        return said


class Shown:
    """The picture that is shown now."""

    def __init__(self, view: Callable[[], ClusterView]) -> None:
        self.view = view
        self._made: ClusterView | None = None
        self._known: tuple[object, ...] = ()
        self._picture: Picture | None = None

    def picture(self, now: ClusterView) -> Picture:
        """Made anew when anything but time has changed; and after a period without a look, for what only time makes true."""
        known = _known(now)
        fresh = self._made is not None and 0 <= now.at - self._made.at <= now.daemon.period_s
        if self._picture is None or not fresh or known != self._known:
            self._picture = Picture(now)
            self._made, self._known = now, known
        return self._picture


def _known(view: ClusterView) -> tuple[object, ...]:
    """All of a view but what time alone changes. Comparing two is cheap: what has not changed is the same object."""
    rest = (getattr(view, one.name) for one in fields(view) if one.name not in ("at", "wall", "daemon"))
    return replace(view.daemon, loop_age_s=0.0), *rest
