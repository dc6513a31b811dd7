"""Units of systemd and containers with a restart policy -> one shape: what starts something on a node beside sparkd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from sparkd.checks.shared import argv, shell_text
from sparkd.checks.shared.argv import Needed
from sparkd.checks.shared.scene import HOST, Scene
from sparkd.engines.recognised import ABOUT
from sparkd.facts.containers import CONTAINERS, Contained
from sparkd.facts.units import UNITS, Unit
from sparkd.model.hiding import BY_NAME
from sparkd.model.snapshot import Unknown

ABOUT_ENGINES = re.compile(rf"{ABOUT}|spark(?:run|ring)", re.I)
_ID = re.compile(r"[0-9a-f]{3,64}")
OWN = re.compile(r"sparkd(-node)?\.(service|socket)")
FIRST_WORDS = 6
MAKES = re.compile(r"docker (?:run|create|compose)|docker-compose")
BEFORE_END = ("ExecStartPre", "ExecStart", "ExecStartPost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """`name`: as in a sentence. `end`: the command after which it starts nothing any more."""

    node: str
    name: str
    needs: tuple[tuple[Needed, str], ...]
    """Paths that its commands need, each with its line of the unit."""
    text: str
    starts_itself: bool
    end: str
    seen: str
    """Where it is written."""
    unit: Unit | None = None
    container: Contained | None = None

    @property
    def serious(self) -> bool:
        """It starts by itself, and what it starts has to do with engines."""
        return self.starts_itself and about(self.text)

    def uses(self) -> tuple[str, ...]:
        """Names of containers that it starts or runs something in."""
        return tuple(dict.fromkeys(one.place.name for one, _ in self.needs if one.place.kind == "container"))


def starters(scene: Scene, node: str) -> Iterator[Starter]:
    """Everything on the node that starts something, but what sparkd itself has made."""
    units = scene.fact(node, UNITS)
    if not isinstance(units, Unknown):
        ranks = {owner for one in scene.nodes[node].ranks if one.owner == scene.owner for owner in one.owners}
        made = (unit for unit in units if not OWN.fullmatch(unit.name) and (unit.user or unit.name not in ranks))
        yield from (_of_unit(node, unit) for unit in made)
    for container in containers(scene, node).values():
        if container.starts_itself and container.owner != scene.owner:
            yield _of_container(node, container)


def containers(scene: Scene, node: str) -> dict[str, Contained]:
    """Containers by name; none where Docker could not be asked."""
    found = scene.fact(node, CONTAINERS)
    return {} if isinstance(found, Unknown) else {one.name: one for one in found}


def named(there: Mapping[str, Contained], name: str) -> Contained | None:
    """Docker takes a name, an id, and the beginning of an id."""
    if name in there or not _ID.fullmatch(name):
        return there.get(name)
    found = [one for one in there.values() if one.id.startswith(name)]
    return found[0] if len(found) == 1 else None


def _of_unit(node: str, unit: Unit) -> Starter:
    needs = {} if unit.skipped else dict(_needs(unit))
    drop_ins = f", with {' '.join(unit.drop_ins)}" if unit.drop_ins else ""
    whose = "" if unit.user is None else f" of {unit.user}'s own systemd"
    return Starter(
        node=node,
        name=f"{unit.name}{whose}",
        needs=tuple(needs.items()),
        text=unit.text,
        starts_itself=unit.starts_itself,
        end=_end(node, unit),
        seen=f"{unit.file}{drop_ins}: {unit.file_state or 'not enabled'}, {unit.active or 'state not known'}",
        unit=unit,
    )


def _needs(unit: Unit) -> Iterator[tuple[Needed, str]]:
    """Each with the line that it is from; none that an earlier command of the unit may have made."""
    for path, key in unit.files:
        yield Needed(HOST, path, "file"), f"{key}={path}"
    earlier: set[str] = set()
    for command in unit.commands:
        if command.key in BEFORE_END:
            for one in () if command.tolerated else argv.needed(command.words, unit.workdir):
                if not shell_text.foregone(one.path, earlier):
                    yield one, f"{command.key}={shown(command.words)}"
            earlier.update(shell_text.named(command.words))


def _end(node: str, unit: Unit) -> str:
    end = unit.systemctl(node, "mask --now" if unit.generated else "disable --now")
    timers = " ".join(name for name in unit.triggered_by if name.endswith(".timer"))
    failed = f" && systemctl reset-failed {quote(unit.name)}" if unit.active == "failed" else ""
    return end + (f" {timers}" if timers else "") + failed


def _of_container(node: str, container: Contained) -> Starter:
    needs = argv.needed_inside(container.argv, container.name, container.workdir)
    return Starter(
        node=node,
        name=f"container {container.name}",
        needs=tuple((one, shown(container.argv)) for one in dict.fromkeys(needs)),
        text=container.text,
        starts_itself=True,
        end=f"on {node}: docker update --restart=no {container.name}",
        seen=f"container {container.name}: restart policy {container.restart}, {container.state}",
        container=container,
    )


def made(unit: Unit) -> set[str]:
    """Names of the containers that the unit itself creates."""
    return {name for command in unit.commands for name in argv.made(command.words)}


def may_make(unit: Unit) -> bool:
    """Containers whose names stand in a script of its, or in a compose file."""
    return any(MAKES.search(text) for text in (*(said for _, said in unit.says), *_lines(unit)))


def _lines(unit: Unit) -> Iterator[str]:
    yield from (" ".join(command.words) for command in unit.commands if command.key in BEFORE_END)


def about(text: str) -> bool:
    """Has this to do with engines?"""
    return ABOUT_ENGINES.search(text) is not None


def shown(words: Sequence[str]) -> str:
    """The beginning of a command, for people: what it runs, and no secret."""
    return " ".join(BY_NAME.tree(list(words[:FIRST_WORDS])))[:160]
