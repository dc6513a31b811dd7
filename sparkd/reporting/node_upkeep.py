"""Planned work on a node and its power hook: as the status shows them, and what people are told of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd.model.power import PowerUse
from sparkd.model.upkeep import NOTHING
from sparkd.model.view import ClusterView
from sparkd.model.words import rfc3339
from sparkd.reporting.rank_status import moment

Json = dict[str, Any]


def as_json(view: ClusterView, name: str) -> Json:
    """`maintenance` and `power` of one entry of `nodes`, null where there is none."""
    known = view.upkeep.get(name, NOTHING)
    work, last = known.maintenance, known.uses[-1] if known.uses else None
    planned = {
        "since": moment(view, work.since),
        "until": moment(view, work.until),
        "by": work.by or None,
        "message": work.message or None,
    } if work else None  # fmt: skip
    power = {"auto": known.auto, "last": use_json(last) if last else None} if known.hook or last else None
    return {"maintenance": planned, "power": power}


def use_json(use: PowerUse) -> Json:
    """One use of a hook: `ok` is null while it goes on, or where sparkd ended meanwhile."""
    return {
        "at": rfc3339(use.wall),
        "by": use.by or None,
        "message": use.message or None,
        "ok": use.ok,
        "text": use.text,
    }


def planned(status: Mapping[str, Any]) -> frozenset[str]:
    """Nodes of a status under maintenance. A status of an earlier version says nothing of it."""
    return frozenset(one["name"] for one in status["nodes"] if one.get("maintenance"))


def quiet(deployment: Mapping[str, Any], nodes: frozenset[str]) -> bool:
    """Has it a rank on a node under maintenance, so that what becomes of it is no news?"""
    return any(rank["node"] in nodes for rank in deployment["ranks"])


def planned_stop(deployment: Mapping[str, Any]) -> bool:
    """Is it held for planned work on a node?"""
    return bool(deployment["hold"]) and deployment["hold"]["fact"].startswith("maintenance:")


def as_known(was: Mapping[str, Any]) -> Json:
    """A deployment or a node as people know it after planned work: they were told nothing meanwhile, and of nothing since."""
    return {**was, "wanted": "stopped", "hold": None, "reason": "", "state": "ok"}


NOTICES = {"maintenance-over": "maintenance", "power-cycle": "power"}
"""Kinds of events of nodes that are notices too -> the kind of the notice."""
