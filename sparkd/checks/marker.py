"""Markers: lines and values that prove a mod is there exactly as often as it must be (one applied twice breaks)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparkd.checks.shared.scene import Answer, Ask, Check, Scene, Text, Trouble
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.place import where
from sparkd.model.printed import document
from sparkd.model.snapshot import Unknown

ABSENT = object()


def asks(scene: Scene) -> Iterator[Ask]:
    for node in scene.deployment.nodes:
        for marker in scene.deployment.markers:
            yield _ask(scene.deployment, node, str(marker["path"]))


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node in scene.deployment.nodes:
        for marker in scene.deployment.markers:
            answer = scene.answer(_ask(scene.deployment, node, str(marker["path"])))
            if not isinstance(answer, Unknown):
                yield from _of(scene.deployment, node, marker, answer)


def _ask(deployment: Deployment, node: str, path: str) -> Text:
    return Text(node, *where(deployment, path))


def _of(deployment: Deployment, node: str, marker: Mapping[str, Any], text: Answer) -> Iterator[Trouble]:
    path, place = str(marker["path"]), where(deployment, str(marker["path"]))[0]
    source = f"image {place.name}" if place.kind == "image" else f"the files of {node}"
    if not isinstance(text, str):
        yield Trouble(node, f"{path} is not in {source}", f"is {deployment.image or deployment.model} the right one?")
    elif "pattern" in marker:
        yield from _counted(node, marker, text, source)
    else:
        yield from _valued(node, marker, text, source)


def _counted(node: str, marker: Mapping[str, Any], text: str, source: str) -> Iterator[Trouble]:
    try:
        lines = [line.strip() for line in text.splitlines() if re.search(str(marker["pattern"]), line)]
    except re.error as error:
        yield Trouble(node, f"the marker's pattern is none: {error}", "correct `markers` in the deployment file")
        return
    wanted = int(marker.get("count", 1))
    if len(lines) != wanted:
        # First field report: two lines are right, three mean that the mod was applied twice.
        twice = ": it was applied more than once" if len(lines) > wanted else ""
        said = (
            f"{marker['path']} in {source} has {len(lines)} lines with `{marker['pattern']}`, {wanted} are right{twice}"
        )
        yield Trouble(node, said, "build the image anew from its base, with the mod applied once", tuple(lines[:8]))


def _valued(node: str, marker: Mapping[str, Any], text: str, source: str) -> Iterator[Trouble]:
    key, wanted = str(marker.get("key", "")), marker.get("equals")
    try:
        found = at(document(text), key)
    except ValueError:
        yield Trouble(node, f"{marker['path']} in {source} is no JSON", "look at the file")
        return
    if found is ABSENT or not same(found, wanted):
        has = "is not there" if found is ABSENT else f"is {json.dumps(found)}"
        said = f"{key} in {marker['path']} of {source} {has}, {json.dumps(wanted)} is right"
        yield Trouble(node, said, f"correct {marker['path']}, on every node")


def at(value: Any, key: str) -> Any:
    """The value of `a.b.c` in nested mappings, or ABSENT."""
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


def same(found: Any, wanted: Any) -> bool:
    """`10000000` and `10000000.0` are one number; the loader may have kept a number's spelling."""
    try:
        return float(found) == float(wanted)
    except (TypeError, ValueError, OverflowError):
        return str(found) == str(wanted)


def _has_markers(deployment: Deployment) -> bool:
    return bool(deployment.markers)


CHECK = Check(
    code="marker",
    order=30,
    level=Level.FAIL,
    description="Every marker of the deployment file is there as often as it must be: a mod applied twice breaks.",
    evaluate=evaluate,
    asks=asks,
    applies=_has_markers,
)
