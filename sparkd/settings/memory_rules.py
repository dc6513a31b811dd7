"""The rules of `memory`, in sparkd.yaml and in deployment files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkd.model.config import Cluster, Deployment
from sparkd.model.size import parse_size
from sparkd.settings import shared_rules
from sparkd.settings.shape import Fault
from sparkd.settings.tree import Path

LEAST, MOST = 64 << 20, 64 << 30
"""Of a guard, in bytes: less is no time to act in (a loading rank takes a GiB in a second), more is half of a GB10."""


def in_cluster(cluster: Cluster) -> Iterator[Fault]:
    guard = cluster.memory.guard
    yield from _guard(("memory", "guard"), {"below": guard.below, "act": guard.act})


def in_deployment(d: Deployment) -> Iterator[Fault]:
    if d.memory.get("weights") is not None:
        yield from shared_rules.size(("memory", "weights"), str(d.memory["weights"]))
    for key, like in (("reserve", "{head: 6GiB, worker: 2GiB}"), ("guard", "{below: 1GiB, act: stop}")):
        if not isinstance(d.memory.get(key, {}), Mapping):
            yield Fault(("memory", key), "expected a mapping", f"write {like}")
    reserve, guard = d.memory.get("reserve"), d.memory.get("guard")
    for name, size in reserve.items() if isinstance(reserve, Mapping) else ():
        yield from shared_rules.size(("memory", "reserve", name), str(size))
    yield from _guard(("memory", "guard"), guard if isinstance(guard, Mapping) else {})


def _guard(path: Path, guard: Mapping[str, object]) -> Iterator[Fault]:
    if "act" in guard:
        yield from shared_rules.choice((*path, "act"), guard["act"], shared_rules.WORDS["memory", "guard", "act"])
    if "below" not in guard:
        return
    said = str(guard["below"])
    wrong = list(shared_rules.size((*path, "below"), said))
    yield from wrong
    if not wrong and parse_size(said) and not LEAST <= parse_size(said) <= MOST:
        yield Fault((*path, "below"), f"`{said}` is no amount to act at", "write 64MiB to 64GiB, or 0 to switch it off")
