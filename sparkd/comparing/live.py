"""What a survey saw on a deployment's nodes -> the side that really runs, by the main process of every rank.

The command line and environment are those of the process (`vllm serve`), whatever started it: a container of sparkd, a
unit, or `docker exec` in a container that only sleeps. How the container was made is Docker's own word. A rank that
has ended is read from what Docker kept of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkd.base.unread import bounded
from sparkd.checks.shared.scene import Ask, Check, Scene
from sparkd.commandline import inspect, programs
from sparkd.comparing.around import around, asks, changed_in, unread_parts, without
from sparkd.comparing.mains import Found, main_process, of_rank, running_by_mark
from sparkd.comparing.rendered import form_of
from sparkd.comparing.seen import Seen
from sparkd.drift import said
from sparkd.drift.fixes import image as image_name
from sparkd.drift.form import RankForm, Side
from sparkd.drift.veil import veiled
from sparkd.engines.tables import shipped
from sparkd.facts.caches import CACHES
from sparkd.facts.containers import CONTAINERS
from sparkd.facts.hashes import HASHES
from sparkd.facts.image import IMAGE, Image
from sparkd.facts.inspected import INSPECTED, Inspected
from sparkd.facts.links import LINKS
from sparkd.facts.model import MODEL
from sparkd.facts.pressure import PRESSURE
from sparkd.facts.programs import PROGRAMS, Program
from sparkd.facts.units import UNITS
from sparkd.facts.versions import VERSIONS
from sparkd.model.check import Level
from sparkd.model.printed import Unread
from sparkd.model.rank import LABEL_DEPLOYMENT, LABEL_OWNER, is_named_so
from sparkd.model.snapshot import Unknown
from sparkd.render import rank_specs

QUICK = (PROGRAMS, INSPECTED)
"""What a running rank is read from."""
AROUND = (VERSIONS, LINKS, MODEL, CACHES, UNITS, CONTAINERS, IMAGE, PRESSURE)
"""What changes seldom; reading it costs more."""


def reading(quick: bool) -> Check:
    """What a survey has to ask, in the shape in which checks ask it."""
    return Check(
        code="live",
        order=0,
        level=Level.OFF,
        description="How the ranks really run.",
        evaluate=lambda scene: iter(()),
        needs=QUICK if quick else (*QUICK, *AROUND),
        asks=_changes if quick else _asks,
    )


HASHING = Check(
    code="hashes",
    order=0,
    level=Level.OFF,
    description="What the weights hold, byte by byte.",
    evaluate=lambda scene: iter(()),
    needs=(HASHES,),
)


def _asks(scene: Scene) -> Iterator[Ask]:
    for node in scene.deployment.nodes:
        yield from asks(scene, node)
    yield from _changes(scene)


def _changes(scene: Scene) -> Iterator[Ask]:
    for node in scene.deployment.nodes:
        found = main_process(scene, node)
        if isinstance(found, Found) and found.container is not None:
            yield changed_in(node, found.program.owner)


# ------------------------------------------------------------------------------------------------------------- a side


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank as it was read. `how`: runs | ended | asleep | absent. `missing` as Seen.unread_parts has it."""

    form: RankForm
    how: str
    missing: Mapping[str, str]


def live(scene: Scene) -> Seen:
    """Every rank as it runs, as it ended, or (where there is nothing of it) as it is wanted. Unreadable text of one rank
    costs that rank alone."""
    unread, found = dict(_unread(scene)), dict[int, _Rank]()
    for rank, node in enumerate(scene.deployment.nodes):
        read = bounded(f"rank {rank}", _rank, scene, rank) if node not in unread else Unread(unread[node])
        if isinstance(read, Unread):
            unread[node] = read.why
        else:
            found[rank] = read
    ranks = {how: tuple(rank for rank, one in found.items() if one.how == how) for how in ("absent", "ended", "asleep")}
    by_word = tuple(_by_word(scene, unread))
    label = "live" if len(ranks["absent"]) + len(ranks["asleep"]) < len(found) or not found else "the next start"
    return Seen(
        side=Side(label=label, kind="live", ranks=tuple(one.form for one in found.values())),
        unread=unread,
        unread_parts={rank: one.missing for rank, one in found.items()}
        | {form.rank: missing for form, missing in by_word},
        by_word=tuple(form for form, _ in by_word),
        flags_by=_flags_by(scene),
        tables=scene.tables,
        **ranks,
    )


def _rank(scene: Scene, rank: int) -> _Rank:
    node = scene.deployment.nodes[rank]
    found = of_rank(scene, node)
    kept = _kept(scene, node) if found is None else None
    if found is not None:
        form, how = _running(scene, node, found), "runs"
    elif kept is not None and _ran(form := _made(scene, node, kept), kept):
        how = "ended"
    else:
        form, how = _wanted(scene, rank), "absent" if kept is None else "asleep"
    program = found.program if found is not None else None
    missing = {**unread_parts(scene, node, program), **dict(_silent(scene, node, program))}
    return _Rank(_whole(scene, rank, form, program), how, missing)


def _flags_by(scene: Scene) -> str:
    table = scene.parser or shipped(scene.deployment.engine)
    if not table.flags:
        return ""
    why = f": {scene.unasked}" if scene.unasked and not table.own else ""
    return table.label(scene.deployment.runtime) + why


def _by_word(scene: Scene, unread: Collection[str]) -> Iterator[tuple[RankForm, dict[str, str]]]:
    """What each running engine says of itself, as a form; and why other parts of it could not be read."""
    for rank, node in enumerate(scene.deployment.nodes):
        ours = running_by_mark(scene, node) if node in unread and node in scene.nodes else None
        words = scene.says.get((node, ours)) if ours is not None else None
        if words and not isinstance(words, Unknown):
            form = RankForm(rank=rank, node=node, engine=scene.deployment.engine, says=said.readable(words))
            yield veiled(form, scene.veil), dict(said.unreadable(words))


def wanted(scene: Scene) -> Seen:
    """What the next start would run, on nodes as they are; ranks of nodes that cannot be read are left out."""
    unread = {node: why.why for node in scene.deployment.nodes if (why := _blind(scene, node)) is not None}
    forms: list[RankForm] = []
    for rank, node in enumerate(scene.deployment.nodes):
        form = bounded(f"rank {rank}", _next, scene, rank) if node not in unread else Unread(unread[node])
        if isinstance(form, Unread):
            unread[node] = form.why
        else:
            forms.append(form)
    ranks = [form.rank for form in forms]
    return Seen(
        side=Side(label="the next start", kind="deployment", ranks=tuple(forms)),
        unread=unread,
        unread_parts={rank: unread_parts(scene, scene.deployment.nodes[rank], None) for rank in ranks},
        absent=tuple(ranks),
        flags_by=_flags_by(scene),
        tables=scene.tables,
    )


def _next(scene: Scene, rank: int) -> RankForm:
    return _whole(scene, rank, _wanted(scene, rank), None)


def beside(known: Side, seen: Seen) -> Side:
    """The other side of a comparison, without what the seen one cannot say."""
    return replace(known, ranks=tuple(without(form, seen.unread_parts.get(form.rank, {})) for form in known.ranks))


def _whole(scene: Scene, rank: int, form: RankForm, program: Program | None) -> RankForm:
    """Adds the sections of what lies around the rank, and removes secrets."""
    node = scene.deployment.nodes[rank]
    sections = around(scene, node, program)
    known = replace(form, rank=rank, node=node, files=sections.files, host=sections.host, unit=sections.unit)
    return veiled(known, scene.veil)


def _blind(scene: Scene, node: str) -> Unknown | None:
    view = scene.nodes.get(node)
    return view.unread_for(scene.deployment.runtime) if view is not None else Unknown("not looked at yet", 0.0)


def _unread(scene: Scene) -> Iterator[tuple[str, str]]:
    """A rank that runs can be read without Docker; whether one has ended, or never was, only Docker knows."""
    for node in scene.deployment.nodes:
        kept: Inspected | Unknown | None = scene.fact(node, INSPECTED)
        main = main_process(scene, node)
        if isinstance(kept, Unknown) and (scene.deployment.runtime != "docker" or main is not None):
            kept = None
        why = (_blind(scene, node), scene.fact(node, PROGRAMS), main, kept)
        yield from ((node, one.why) for one in why if isinstance(one, Unknown | Unread))


def _wanted(scene: Scene, rank: int) -> RankForm:
    spec = rank_specs(scene.deployment, scene.cluster.nodes, scene.owner, 0)[rank]
    image = scene.fact(spec.node, IMAGE)
    return form_of(
        scene.deployment, spec, image.id if isinstance(image, Image) else None, scene.engine_id, scene.tables
    )


# ------------------------------------------------------------------------------------------------------------- a rank


def _running(scene: Scene, node: str, found: Found) -> RankForm:
    """The process says what runs, its container how that was made."""
    made = _made(scene, node, found.container) if found.container is not None else RankForm()
    words = scene.says.get((node, found.program.owner))
    return replace(
        made,
        node=node,
        says=None if words is None or isinstance(words, Unknown) else said.readable(words),
        engine=found.engine,
        engine_id=scene.engine_id,
        program=found.name,
        model=found.arguments.model,
        flags=found.arguments.flags,
        env_whole=made.env_whole or (found.container is None and scene.deployment.runtime == "docker"),
        env=made.env if found.program.env is None else _own(found.program.env, scene, node, found.container),
    )


def _silent(scene: Scene, node: str, program: Program | None) -> Iterator[tuple[str, str]]:
    words = scene.says.get((node, program.owner)) if program is not None else None
    if isinstance(words, Unknown):
        yield "what its engine says of itself", words.why
    elif words is not None:
        yield from said.unreadable(words)


def _made(scene: Scene, node: str, container: Mapping[str, Any]) -> RankForm:
    docker = scene.fact(node, INSPECTED)
    image = docker.images.get(str(container["Image"])) if isinstance(docker, Inspected) else None
    return inspect.form(container, image)


def _own(env: Mapping[str, str], scene: Scene, node: str, container: Mapping[str, Any] | None) -> dict[str, str]:
    """Without what every process has, and what the image sets itself."""
    docker = scene.fact(node, INSPECTED)
    image = docker.images.get(str((container or {}).get("Image"))) if isinstance(docker, Inspected) else None
    set_by_image = dict(inspect.environment(image)) if image is not None else {}
    return {
        name: text
        for name, text in sorted(env.items())
        if name not in programs.AMBIENT and set_by_image.get(name) != text
    }


def _ran(form: RankForm, container: Mapping[str, Any]) -> bool:
    """Not a container that only sleeps: its own environment is not that of the rank which a script started in it."""
    return form.flags is not None or (container.get("State") or {}).get("Status") != "running"


def _kept(scene: Scene, node: str) -> Mapping[str, Any] | None:
    """The last container of this rank that Docker still has, ended or asleep; by label, or where it is the only one
    that runs the deployment's image and nobody marked it."""
    docker = scene.fact(node, INSPECTED)
    if not isinstance(docker, Inspected):
        return None
    labelled, alike = [], []
    for one in docker.containers.values():
        labels = one["Config"].get("Labels") or {}
        of_ours = labels.get(LABEL_DEPLOYMENT) == scene.deployment.name and labels.get(LABEL_OWNER) == scene.owner
        if of_ours and is_named_so(str(one["Name"]).lstrip("/"), labels):
            labelled.append(one)
        elif not any(str(label).startswith("io.sparkd.") for label in labels) and _same_image(scene, one):
            alike.append(one)
    return max(labelled, key=lambda one: str(one.get("Created", "")), default=alike[0] if len(alike) == 1 else None)


def _same_image(scene: Scene, container: Mapping[str, Any]) -> bool:
    image = scene.deployment.image
    return image is not None and image_name(str(container["Config"].get("Image", ""))) == image_name(image)
