"""What a survey saw on a node -> the engine's main process that is this deployment's rank there, whatever started it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.base.unread import bounded
from sparkd.checks.shared.scene import Scene
from sparkd.drift.argv import Arguments, read_argv
from sparkd.drift.fixes import image as image_name
from sparkd.drift.values import same
from sparkd.engines import recognised
from sparkd.facts.inspected import INSPECTED, Inspected
from sparkd.facts.programs import PROGRAMS, Program
from sparkd.model.printed import Unread
from sparkd.model.rank import IDENTITY, unit_name
from sparkd.model.snapshot import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An engine's main process, and its arguments by their meaning."""

    program: Program
    engine: str
    name: tuple[str, ...]
    arguments: Arguments
    container: Mapping[str, Any] | None


def of_rank(scene: Scene, node: str) -> Found | None:
    """The engine that is this deployment's there: by the mark of sparkd, else by what it serves where."""
    rank = scene.deployment.nodes.index(node)
    likely = [(_likeness(scene, one, rank), one.program.start_ticks, one) for one in _engines(scene, node)]
    best = max((one for one in likely if one[0] > 0), key=lambda one: one[:2], default=None)
    return None if best is None else best[2]


def main_process(scene: Scene, node: str) -> Found | None | Unread:
    """The same, for callers that ask about several ranks: Unread where the arguments of this one cannot be read."""
    return bounded(f"the main process of rank {scene.deployment.nodes.index(node)}", of_rank, scene, node)


def _engines(scene: Scene, node: str) -> Iterator[Found]:
    found, docker = scene.fact(node, PROGRAMS), scene.fact(node, INSPECTED)
    if isinstance(found, Unknown):
        return
    containers = docker.containers if isinstance(docker, Inspected) else {}
    for program in found:
        named = recognised.started(program.argv)
        if named is not None:
            container = containers.get(program.owner)
            image = str(container["Image"]) if container is not None else None
            yield Found(
                program=program,
                engine=named[0],
                name=named[1],
                arguments=read_argv(named[2], scene.tables.of(named[0], scene.engine_id or image)),
                container=container,
            )


def _likeness(scene: Scene, one: Found, rank: int) -> int:
    """How well the engine fits this deployment; 0 for an engine of another deployment."""
    deployment, flags = scene.deployment, one.arguments.flags
    marks = [(one.program.env or {}).get(name) for name in IDENTITY]
    if any(marks) or one.program.owner == unit_name(f"sparkd-{deployment.name}-{rank}"):
        owner, name, _, number = marks  # another sparkd may have a deployment of this name, on this very machine
        ours = owner in (None, scene.owner) and name in (None, deployment.name) and number in (None, str(rank))
        return 100 if ours else 0
    image = str(((one.container or {}).get("Config") or {}).get("Image", ""))
    return sum(
        (
            4 * (one.arguments.model == deployment.model),
            4 * _names(flags.get("served-model-name"), deployment.api_name),
            2 * same(flags.get("master-port"), deployment.master_port),
            2 * (rank == 0 and same(flags.get("port"), deployment.port)),
            1 * (deployment.image is not None and image_name(image) == image_name(deployment.image)),
        )
    )


def _names(served: Any, name: str) -> bool:
    return name in (served if isinstance(served, list) else [served])


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A rank that runs. `owner`: container id or unit of its main process; `container`: by which its runtime knows it,
    None where none does; `started`: RFC 3339, empty where it is not known."""

    rank: int
    node: str
    owner: str
    container: str | None
    started: str


def processes(scene: Scene) -> Iterator[Process]:
    """Every rank whose main process was found, and where none could be looked for, every rank that its runtime has."""
    for rank, node in enumerate(scene.deployment.nodes):
        found, ours = main_process(scene, node), running_by_mark(scene, node)
        seen: tuple[Program, ...] | Unknown = scene.fact(node, PROGRAMS)
        if isinstance(found, Found):
            kept = found.container or {}
            state = kept.get("State")
            yield Process(
                rank=rank,
                node=node,
                owner=found.program.owner,
                container=str(kept["Id"]) if kept else ours,
                started=str(state.get("StartedAt", "")) if isinstance(state, Mapping) else "",
            )
        elif ours is not None and (isinstance(found, Unread) or isinstance(seen, Unknown)):
            yield Process(rank=rank, node=node, owner=ours, container=ours, started="")


def running_by_mark(scene: Scene, node: str) -> str | None:
    """Its runtime's id of the rank that a sparkd started there and that runs, as the loop saw it last."""
    mark = (scene.deployment.name, scene.deployment.nodes.index(node), True)
    found = [one.id for one in scene.nodes[node].ranks if (one.deployment, one.rank, one.alive) == mark]
    return found[-1] if found else None
