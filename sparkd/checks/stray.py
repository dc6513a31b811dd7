"""Engine processes that belong to no rank of sparkd's, and ranks that are left over: a launcher's, a shell's, or ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.decide.case import duration
from sparkd.decide.strays import Whose, engines, remedy, whose
from sparkd.facts.engines import ENGINES
from sparkd.model.check import Level
from sparkd.model.decision import FailureClass
from sparkd.model.size import spoken
from sparkd.model.snapshot import NodeView


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, found in scene.each(ENGINES):
        view = replace(scene.nodes[node], engines=found)
        own = [one for one in view.ranks if one.owner == scene.owner]
        ranks = {owner for one in own for owner in one.owners}
        groups: dict[str, list[Whose]] = {}
        for process in engines(view):
            if process.owner not in ranks:
                one = whose(process, view, scene.owner)
                groups.setdefault(process.owner if process.owner != "-" else str(process.pid), []).append(one)
        for strays in groups.values():
            yield _trouble(scene, view, strays)
    for node in scene.deployment.nodes:
        yield from _left(scene, node)


def _left(scene: Scene, node: str) -> Iterator[Trouble]:
    """Ranks of a generation that is over. While a generation runs, the loop itself finds the ranks of others."""
    name = scene.deployment.name
    for rank in scene.nodes[node].ranks:
        if not scene.running and rank.alive and (rank.owner, rank.deployment) == (scene.owner, name):
            text = (
                f"rank {rank.rank} of generation {rank.generation} of {name} still runs on {node}: sparkd ends it first"
            )
            yield Trouble(node, text, "", (f"{rank.name}: {rank.state}",), rank.rank, mild=True, passing=True)


def _trouble(scene: Scene, view: NodeView, strays: list[Whose]) -> Trouble:
    node = view.name
    first = max(strays, key=lambda one: one.process.rss_bytes)
    oldest = max(one.process.age_s for one in strays)
    ports = sorted({port for one in strays for port in one.process.ports})
    more = f" and {len(strays) - 1} more" if len(strays) > 1 else ""
    listens = f", on port {', '.join(map(str, ports))}" if ports else ""
    fix = remedy(first, view, scene.deployment.name, scene.cluster.cleanup.remove_strays)
    if first.kind == "ours":
        text = f"{first.words} outlived its rank on {node}{listens}"
        text += "" if fix else ": sparkd ends it before the next start"
    else:
        text = f"an engine that sparkd did not start runs on {node} for {duration(oldest)}: {first.name}{more}{first.where}{listens}"
    seen = tuple(
        f"pid {one.process.pid}, parent {one.process.ppid}, {spoken(one.process.rss_bytes)}: {one.process.title[:200]}"
        for one in strays
    )
    mild = first.kind == "ours"
    return Trouble(node, text, f"on {node}: {fix}" if fix else "", seen, mild=mild, passing=not fix)


CHECK = Check(
    code="stray",
    order=130,
    level=Level.WARN,
    description="Engine processes of anybody else, on the host or in any container, and ranks of an earlier generation: they "
    "hold memory, ports and the GPU.",
    evaluate=evaluate,
    needs=(ENGINES,),
    cls=FailureClass.RESOURCE,
)
