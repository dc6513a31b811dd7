"""What a survey saw around a rank -> its `files`, `host` and `unit` sections: all that may differ beyond flags.

Keys are made to be read in a diff: `model NAME`, `hash NAME` where it was hashed, `marker PATH …`, `build KEY`,
`cache PATH`; of what runs also `changed PATH`, `library NAME` and `program`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from sparkd.checks.build_metadata import values as build_values
from sparkd.checks.marker import ABSENT, at
from sparkd.checks.shared.scene import Ask, Changes, Place, Scene, Text
from sparkd.checks.shared.starters import starters
from sparkd.checks.swap import USED_BYTES
from sparkd.drift import said
from sparkd.drift.form import RankForm
from sparkd.engines import recognised
from sparkd.facts import Fact
from sparkd.facts.caches import CACHES
from sparkd.facts.inspected import INSPECTED
from sparkd.facts.links import LINKS
from sparkd.facts.model import MODEL
from sparkd.facts.pressure import PRESSURE
from sparkd.facts.programs import Program
from sparkd.facts.units import UNITS, Unit
from sparkd.facts.versions import VERSIONS
from sparkd.model.config import Deployment
from sparkd.model.machine import Memory
from sparkd.model.place import where
from sparkd.model.printed import document
from sparkd.model.snapshot import Unknown

OF_WHAT_RUNS = ("changed ", "library ", "program")
"""Keys of `files` that only a running rank has."""

METADATA = "/workspace/build-metadata.yaml"
"""Where the community's builds say how they were made; another path is said in the deployment's `build_metadata`."""


def asks(scene: Scene, node: str) -> Iterator[Ask]:
    """Files of the deployment's image and mounts: its markers, and how the image was built."""
    deployment = scene.deployment
    for marker in deployment.markers:
        yield Text(node, *where(deployment, str(marker["path"])))
    if deployment.image is not None:
        yield metadata(deployment, node)


def changed_in(node: str, container: str) -> Ask:
    return Changes(node, Place("container", container))


def metadata(deployment: Deployment, node: str) -> Text:
    """The question for the file that says how the deployment's image was built."""
    return Text(node, *where(deployment, str(deployment.build_metadata.get("path", METADATA))))


def around(scene: Scene, node: str, program: Program | None = None) -> RankForm:
    """A form with these three sections alone; a section none of whose facts could be read is None."""
    files = dict(_files(scene, node, program))
    host = dict(_host(scene, node, program is not None))
    units = scene.fact(node, UNITS)
    unit = None if isinstance(units, Unknown) else dict(_units(scene, node))
    return RankForm(node=node, files=files or None, host=host or None, unit=unit)


def unread_parts(scene: Scene, node: str, program: Program | None) -> dict[str, str]:
    """Beginnings of keys about which this survey says nothing, and why: they are not compared."""
    deployment = scene.deployment
    asked: dict[str, object] = {
        **{key: scene.fact(node, fact) for key, fact in _SAID_BY},
        "build ": scene.answer(metadata(deployment, node)) if deployment.image is not None else None,
        "swap in use": scene.nodes[node].memory if node in scene.nodes else None,
        "changed ": scene.answer(changed_in(node, program.owner)) if program and len(program.owner) == 64 else None,
        **{
            f"marker {one['path']} ": scene.answer(Text(node, *where(deployment, str(one["path"]))))
            for one in deployment.markers
        },
    }
    if deployment.runtime != "docker":
        del asked["docker"]
    unread = {key: value.why for key, value in asked.items() if isinstance(value, Unknown)}
    return unread if program is not None else {**unread, **dict.fromkeys(OF_WHAT_RUNS, NOT_RUNNING)}


NOT_RUNNING = "it does not run"
_SAID_BY: tuple[tuple[str, Fact[Any]], ...] = (
    *((name, VERSIONS) for name in ("kernel", "architecture", "driver", "os", "product", "firmware")),
    ("docker", INSPECTED),
    ("swap devices", PRESSURE),
    ("fabric ", LINKS),
    ("rdma ", LINKS),
    ("model ", MODEL),
    ("hash ", MODEL),
    ("cache ", CACHES),
)
"""Beginning of a key -> the fact that it is from."""


def without(form: RankForm, keys: Collection[str]) -> RankForm:
    """The form without `files` and `host` that begin like one of `keys`, and without what its engine says of them."""
    begins, form = tuple(keys), said.without(form, keys)
    files, host = (
        section and {key: value for key, value in section.items() if not key.startswith(begins)}
        for section in (form.files, form.host)
    )
    return replace(form, files=files, host=host)


# --------------------------------------------------------------------------------------------------------------- files


def _files(scene: Scene, node: str, program: Program | None) -> Iterator[tuple[str, Any]]:
    model = scene.fact(node, MODEL)
    if not isinstance(model, Unknown):
        if model.revision:
            yield "model revision", model.revision
        yield from ((f"model {one.name}", f"{one.size} bytes") for one in model.shards if one.size is not None)
        weights = {one.name for one in model.shards}
        yield from ((f"hash {name}", sha[:16]) for name, sha in model.hashes.items() if name in weights)
        yield from (
            (f"model {name}", f"sha256 {sha[:16]}") for name, sha in model.hashes.items() if name not in weights
        )
    caches = scene.fact(node, CACHES)
    if not isinstance(caches, Unknown):
        yield from (
            (f"cache {one.path}", "filled" if one.files else "empty") for one in caches if one.files is not None
        )
    for marker in scene.deployment.markers:
        text = scene.answer(Text(node, *where(scene.deployment, str(marker["path"]))))
        if not isinstance(text, Unknown):
            yield _marker(marker, text)
    if scene.deployment.image is not None:
        built = scene.answer(metadata(scene.deployment, node))
        if isinstance(built, str):
            yield from ((f"build {key}", value) for key, value in build_values(built).items() if value)
    if program is not None:
        yield from _of_what_runs(scene, node, program)


def _marker(marker: Any, text: str | None) -> tuple[str, Any]:
    path = marker["path"]
    if "pattern" in marker:
        try:
            lines = [line for line in (text or "").splitlines() if re.search(str(marker["pattern"]), line)]
        except re.error:  # the check of markers says so
            lines = []
        return f"marker {path} `{marker['pattern']}`", None if text is None else f"{len(lines)} lines"
    key = str(marker.get("key", ""))
    try:
        found = at(document(text or ""), key)
    except ValueError:
        found = ABSENT
    return f"marker {path} {key}", None if found is ABSENT else found


def _of_what_runs(scene: Scene, node: str, program: Program) -> Iterator[tuple[str, Any]]:
    changes = scene.answer(changed_in(node, program.owner))
    if isinstance(changes, str):
        yield from ((f"changed {path}", now) for path, now in json.loads(changes).items())
    for path, sha in program.libraries.items():
        if sha is not None:
            yield f"library {path.rpartition('/')[2]}", sha[:12]
    file = recognised.program_file(program.argv)
    if file is not None:
        yield "program", file


# ---------------------------------------------------------------------------------------------------------------- host


def _host(scene: Scene, node: str, runs: bool) -> Iterator[tuple[str, Any]]:
    versions = scene.fact(node, VERSIONS)
    if not isinstance(versions, Unknown):
        yield from sorted(versions.items())
    docker = scene.fact(node, INSPECTED)
    if not isinstance(docker, Unknown) and scene.deployment.runtime == "docker":
        yield "docker", ".".join(docker.version.split(".")[:2])  # a third part is repairs
    yield from _links(scene, node)
    yield from _swap(scene, node, runs)


def _swap(scene: Scene, node: str, runs: bool) -> Iterator[tuple[str, Any]]:
    view, pressure = scene.nodes.get(node), scene.fact(node, PRESSURE)
    if not isinstance(pressure, Unknown):
        # The next start finds none where sparkd turns it off before it.
        swapped_off = scene.cluster.cleanup.swapoff and not runs
        devices = () if swapped_off else pressure.swaps
        yield "swap devices", ", ".join(sorted(one.name for one in devices)) or "off"
    if view is not None and isinstance(view.memory, Memory):
        # Idle pages of a desktop come and go; what the check of swap calls used is used here too.
        yield "swap in use", "used" if view.memory.swap_used >= USED_BYTES else "not used"


def _links(scene: Scene, node: str) -> Iterator[tuple[str, Any]]:
    links = scene.fact(node, LINKS)
    if isinstance(links, Unknown):
        return
    fabric = links.having(str(scene.cluster.nodes[node].data_address))
    if fabric is not None:
        yield "fabric interface", fabric.name
        yield "fabric MTU", fabric.mtu
        yield "fabric speed", f"{fabric.speed_mbps} Mbit/s" if fabric.speed_mbps > 0 else "not said"
    yield from ((f"rdma {one.device}/{one.port}", one.state) for one in links.rdma)


# --------------------------------------------------------------------------------------------------------------- units


def _units(scene: Scene, node: str) -> Iterator[tuple[str, Any]]:
    """Units that start something of engines by themselves, with what systemd makes of their drop-ins."""
    for starter in starters(scene, node):
        if starter.unit is not None and starter.serious:
            yield from _unit(starter.unit)


def _unit(unit: Unit) -> Iterator[tuple[str, Any]]:
    yield f"{unit.name} Restart", unit.restart
    for at_, command in enumerate(unit.commands):
        yield f"{unit.name} {command.key} {at_ + 1}", " ".join(command.words)
    if unit.drop_ins:
        yield f"{unit.name} drop-ins", " ".join(unit.drop_ins)
