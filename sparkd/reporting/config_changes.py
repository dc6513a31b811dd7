"""Two configurations -> the keys in which they differ, with both values as people may see them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sparkd.model.config import LAUNCH, Cluster, Deployment
from sparkd.model.hiding import BY_NAME
from sparkd.model.secret import HIDDEN
from sparkd.model.view import Change, Pending

ADDRESSES = ("notify.webhook.url",)
"""The address of such a hook is its only protection: it is treated like a secret."""


def of_deployments(started: Deployment, wanted: Deployment) -> tuple[Change, ...]:
    """What a restart would change about the ranks; secrets are their references."""
    before, after = ({key: getattr(one, key) for key in LAUNCH} for one in (started, wanted))
    return tuple(_changes(before | _plain(started), after | _plain(wanted)))


def _plain(deployment: Deployment) -> dict[str, Any]:
    secrets = {name: f"<from {file}>" for name, file in deployment.secrets.items()}
    return {"container": asdict(deployment.container), "secrets": secrets}


def of_clusters(before: Cluster, after: Cluster) -> tuple[Change, ...]:
    """What differs in sparkd.yaml."""
    return tuple(_changes(asdict(before), asdict(after)))


def as_json(pending: Pending) -> dict[str, Any]:
    """`pending` of one deployment in `ctl status --json`."""
    changes = [{"key": one.key, "running": one.before, "file": one.after} for one in pending.changes]
    return {"changes": changes, "problems": list(pending.problems), "removed": pending.removed}


def said(changes: Iterable[Change], most: int = 3) -> str:
    """`image a -> b, args.dtype (none) -> half and 2 more`."""
    listed = [f"{one.key} {one.before or '(none)'} -> {one.after or '(none)'}" for one in changes]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    olds, news = dict(_flat(before)), dict(_flat(after))
    for key in sorted(olds.keys() | news.keys()):
        old, new = olds.get(key), news.get(key)
        if old != new:
            yield Change(key, _shown(key, old), _shown(key, new))


def _flat(tree: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value under its dotted key; what is empty is as if it were not there."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{at}{key}.")
        elif value not in (None, (), []):
            yield f"{at}{key}", value


def _shown(key: str, value: Any) -> str | None:
    if value is None:
        return None
    name = key.rpartition(".")[2].replace("-", "_")
    if key in ADDRESSES:
        return HIDDEN
    shown = value if key.startswith("secrets.") else BY_NAME.tree(value, name)
    return shown if isinstance(shown, str) else json.dumps(shown)
