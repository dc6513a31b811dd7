"""Ghosts: enabled units and containers that point at something that is not there, or will not be there the next time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import isabs, join, normpath

from sparkd.checks.shared.argv import Needed
from sparkd.checks.shared.scene import HOST, Ask, Check, Look, Place, Scene, Trouble
from sparkd.checks.shared.starters import Starter, containers, made, may_make, named, starters
from sparkd.facts.containers import CONTAINERS, Contained
from sparkd.facts.images import IMAGES
from sparkd.facts.units import UNITS
from sparkd.model.check import Level
from sparkd.model.place import below, moved
from sparkd.model.snapshot import Unknown

GONE = ("missing", "no-interpreter")
NOT_THERE, INTERPRETER = "which is not there", "whose first line names a program that is not there"


@dataclass(frozen=True, slots=True)
class _Sought:
    """Where one needed thing is looked for: there it is if any of `looks` is there."""

    looks: tuple[Look, ...]
    image: tuple[Look, ...] = ()
    """The same in the container's image, where the container holds it in no mount."""
    mount: bool = False
    """Below a mount of the container, on the node."""


def asks(scene: Scene) -> Iterator[Ask]:
    for node in scene.deployment.nodes:
        for starter in starters(scene, node):
            for need, _ in starter.needs:
                sought = _sought(scene, node, need)
                if sought is not None:
                    yield from (*sought.looks, *sought.image)
        for container in _others(scene, node):
            yield from (look for look, _ in _sources(node, container))


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node in scene.deployment.nodes:
        there = containers(scene, node)
        units = scene.fact(node, UNITS)
        coming = set() if isinstance(units, Unknown) else {name for unit in units for name in made(unit)}
        for starter in starters(scene, node):
            for need, line in starter.needs:
                if need.role == "container":
                    if not (named(there, name := need.place.name) or name in coming or _may_make(starter)):
                        yield from [_no_container(starter, name, line)] if _read(scene, node) else []
                else:
                    yield from _judged(scene, starter, need, line)
        for container in _others(scene, node):
            for look, target in _sources(node, container):
                if scene.missing(look):
                    yield _no_source(node, container, look.path, target)


def _read(scene: Scene, node: str) -> bool:
    found = scene.fact(node, CONTAINERS)
    return not isinstance(found, Unknown)


def _may_make(starter: Starter) -> bool:
    return starter.unit is not None and may_make(starter.unit)


# -------------------------------------------------------------------------------------------------------- where to look


def _sought(scene: Scene, node: str, need: Needed) -> _Sought | None:
    """None where nothing can be asked: no such container, no such image."""
    if need.role == "container":
        return None
    if need.place == HOST:
        return _Sought((Look(node, HOST, need.path),))
    if need.place.kind == "image":
        return _in_image(scene, node, need)
    container = named(containers(scene, node), need.place.name)
    return None if container is None else _in_container(scene, node, container, need)


def _in_image(scene: Scene, node: str, need: Needed) -> _Sought | None:
    """None where the image is missing (Docker fetches it), and for a path in one of Docker's own volumes."""
    for source, target in sorted(need.mounts, key=lambda pair: -len(pair[1])):
        if below(need.path, target):
            return None if not source else _Sought((Look(node, HOST, moved(need.path, target, source)),), mount=True)
    image = _image(scene, node, need.place.name)
    return None if image is None else _Sought((Look(node, Place("image", image), need.path),))


def _in_container(scene: Scene, node: str, container: Contained, need: Needed) -> _Sought | None:
    bare = need.role == "program" and "/" not in need.path
    folders = container.path if bare else (container.workdir or "/",)
    paths = (need.path,) if isabs(need.path) else tuple(normpath(join(folder, need.path)) for folder in folders)
    if len(paths) == 1:
        mounts = sorted(container.mounts, key=lambda one: -len(one.target))
        mount = next((one for one in mounts if below(paths[0], one.target)), None)
        if mount is not None and mount.source:
            return _Sought((Look(node, HOST, moved(paths[0], mount.target, mount.source)),), mount=True)
        if mount is not None:
            return _Sought((Look(node, Place("container", container.id), paths[0]),))
    here = tuple(Look(node, Place("container", container.id), path) for path in paths)
    image = _image(scene, node, container.image_id)
    if image is None:
        return _Sought(here)
    return _Sought(here, tuple(Look(node, Place("image", image), path) for path in paths))


def _image(scene: Scene, node: str, ref: str) -> str | None:
    images = scene.fact(node, IMAGES)
    if isinstance(images, Unknown):
        return None
    return images.get(ref) or images.get(f"{ref}:latest")


def _others(scene: Scene, node: str) -> Iterator[Contained]:
    """What our own ranks mount is looked at before each start of theirs (decide/needs)."""
    yield from (one for one in containers(scene, node).values() if one.owner != scene.owner)


def _sources(node: str, container: Contained) -> Iterator[tuple[Look, str]]:
    """None whose name cannot be asked for: it is not UTF-8, or has a line break in it."""
    named = (one for one in container.mounts if one.source and not {"\ufffd", "\n"} & set(one.source))
    yield from ((Look(node, HOST, one.source), one.target) for one in named)


# ------------------------------------------------------------------------------------------------------------- verdicts


def _judged(scene: Scene, starter: Starter, need: Needed, line: str) -> Iterator[Trouble]:
    sought = _sought(scene, starter.node, need)
    if sought is None:
        return
    gone = GONE if need.role == "program" else GONE[:1]
    here, image = _there(scene, sought.looks, gone), _there(scene, sought.image, gone)
    if here is False:
        broken = any(scene.answer(look) == GONE[1] for look in sought.looks)
        yield _ghost(starter, need, sought, line, INTERPRETER if broken else NOT_THERE)
    elif here and image is False:
        yield _passing(starter, need, line)


def _there(scene: Scene, looks: tuple[Look, ...], gone: tuple[str, ...]) -> bool | None:
    """None where it was not asked, or could not be told."""
    answers = [scene.answer(look) for look in looks]
    if any(not isinstance(answer, Unknown) and answer not in gone for answer in answers):
        return True
    return False if answers and all(answer in gone for answer in answers) else None


def _ghost(starter: Starter, need: Needed, sought: _Sought, line: str, why: str) -> Trouble:
    node = starter.node
    where = _where(need, sought)
    text = f"{starter.name} on {node} needs {need.path}{where}, {why}"
    if need.role == "mount":
        text = (
            f"{starter.name} on {node} mounts {need.path}, which is not there: Docker would make an empty folder of it"
        )
    fix = f"{_end(starter)}, or put {need.path} back"
    mild = not starter.serious or need.role == "mount"
    return Trouble(node, text, fix, (starter.seen, line), mild=mild, not_yet=sought.looks[0].place == HOST)


def _end(starter: Starter) -> str:
    return f"{starter.end} (sparkd starts the engine)" if starter.serious else starter.end


def _where(need: Needed, sought: _Sought) -> str:
    if need.place == HOST:
        return ""
    kind = f" in {need.place.kind} {need.place.name}"
    return f"{kind} (a mount of {sought.looks[0].path})" if sought.mount else kind


def _passing(starter: Starter, need: Needed, line: str) -> Trouble:
    node, name = starter.node, need.place.name
    text = (
        f"{need.path}, which {starter.name} on {node} needs, is only in the writable layer of container {name}: "
        "it is gone when the container is made anew"
    )
    fix = f"on {node}: docker cp {name}:{need.path} a folder that is then mounted, or bake it into the image"
    return Trouble(node, text, fix, (starter.seen, line, f"not in the image of {name}"), mild=True)


def _no_container(starter: Starter, name: str, line: str) -> Trouble:
    text = f"{starter.name} on {starter.node} uses container {name}, which does not exist"
    fix = f"{_end(starter)}, or make the container again"
    return Trouble(starter.node, text, fix, (starter.seen, line), mild=not starter.serious, not_yet=True)


def _no_source(node: str, container: Contained, source: str, target: str) -> Trouble:
    text = f"container {container.name} on {node} mounts {source} at {target}, and there is no {source}"
    fix = f"on {node}: mount the disk it was on or put it back, or docker rm {container.name}"
    seen = f"container {container.name}: {container.state}, restart policy {container.restart}"
    return Trouble(node, text, fix, (seen,), mild=True, not_yet=True)


CHECK = Check(
    code="ghost-path",
    order=90,
    level=Level.FAIL,
    description="Enabled or failed units and self-restarting containers point at programs, scripts and mounts that exist, "
    "and that outlive their container.",
    evaluate=evaluate,
    needs=(UNITS, CONTAINERS, IMAGES),
    asks=asks,
)
