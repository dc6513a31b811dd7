"""Outages as the JSON of `ctl history --outages`: one object each, and a sum for every month. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sparkd.model.decision import State
from sparkd.model.outage import Outage
from sparkd.model.words import rfc3339


def as_json(name: str, outage: Outage, now: float) -> dict[str, Any]:
    """One outage; of one that goes on, as far as it is `now` (daemon's clock). `answered` is null where a person ended it."""
    return {
        "deployment": name,
        "began": rfc3339(outage.began_wall),
        "ended": None if outage.ended_wall is None else rfc3339(outage.ended_wall),
        "seconds": round(outage.lasted_s(now), 1),
        "down_s": round(outage.down_s(now), 1),
        "unread_s": round(outage.unknown_s(now), 1),
        "generation": outage.generation,
        "answered": outage.answered,
        "starts": outage.starts,
        "cause": {"code": outage.code, "class": outage.cls or None, "text": outage.text},
        "asked": outage.asked,
        "unwatched": outage.unwatched,
    }


def listing(
    ended: Iterable[tuple[str, Outage]], states: Mapping[str, State], now: float, name: str | None
) -> dict[str, Any]:
    """Those that `ended` and those that go on, of one deployment or all, in the order in which they began; and by month."""
    running = ((one, state.outage) for one, state in states.items())
    found = [(one, outage) for one, outage in (*ended, *running) if outage is not None and name in (None, one)]
    found.sort(key=lambda pair: pair[1].began_wall)
    ordered = [as_json(one, outage, now) for one, outage in found]
    months: dict[str, list[Mapping[str, Any]]] = {}
    for one in ordered:
        months.setdefault(_month(one["began"]), []).append(one)
    return {"schema": 1, "outages": ordered, "months": [_sum(month, found) for month, found in months.items()]}


def _month(began: str) -> str:
    """As the people beside this machine call it; an outage belongs to the month in which it began."""
    return datetime.fromisoformat(began).astimezone().strftime("%Y-%m")


def _sum(month: str, outages: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Unread time is no outage, and outages that a person asked for are counted apart."""
    asked = [one["down_s"] for one in outages if one["asked"]]
    down = [one["down_s"] for one in outages if not one["asked"] and one["down_s"]]
    return {
        "month": month,
        "outages": len(down),
        "down_s": round(sum(down), 1),
        "longest_s": max(down, default=0.0),
        "unread_s": round(sum(one["unread_s"] for one in outages), 1),
        "asked": len(asked),
        "asked_s": round(sum(asked), 1),
    }
