"""What a survey saw on a deployment's nodes -> the side that really runs, by the main process of every rank.

The command line and environment are those of the process (`vllm serve`), whatever started it: a container of sparkd, a
unit, or `docker exec` in a container that only sleeps. How the container was made is Docker's own word. A rank that
has ended is read from what Docker kept of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkd.checks.scene import Ask, Check, Scene
from sparkd.drift.form import RankForm, Side
from sparkd.drift.veil import veiled
from sparkd.drift.words import image as image_name
from sparkd.engines.flags import shipped
from sparkd.facts.caches import CACHES
from sparkd.facts.containers import CONTAINERS
from sparkd.facts.image import IMAGE, Image
from sparkd.facts.inspected import INSPECTED, Inspected
from sparkd.facts.links import LINKS
from sparkd.facts.model import HASHES, MODEL
from sparkd.facts.pressure import PRESSURE
from sparkd.facts.programs import PROGRAMS, Program
from sparkd.facts.units import UNITS
from sparkd.facts.versions import VERSIONS
from sparkd.importers import inspect, programs
from sparkd.importers.around import around, asks, changed_in, unsaid, without
from sparkd.importers.mains import Found, of_rank, running_by_mark
from sparkd.importers.rendered import form_of
from sparkd.model.check import Level
from sparkd.model.rank import LABEL_DEPLOYMENT, LABEL_OWNER, is_named_so
from sparkd.model.snapshot import Unknown
from sparkd.render import rank_specs

QUICK = (PROGRAMS, INSPECTED)
"""What a running rank is read from."""
AROUND = (VERSIONS, LINKS, MODEL, CACHES, UNITS, CONTAINERS, IMAGE, PRESSURE)
"""What changes seldom; reading it costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`side` has every rank of a node that could be read; one that neither runs nor was kept by Docker is what the
    next start would make of it, and is in `absent`, or in `asleep` where its container is there without it."""

    side: Side
    unread: Mapping[str, str]
    """Node -> why what runs there is not known."""
    unsaid: Mapping[int, Mapping[str, str]]
    """Rank -> what of it could not be read (beginnings of keys), and why."""
    absent: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    asleep: tuple[int, ...] = ()
    """Their containers run and no engine in them: with what flags one was started only its script knows."""
    heard: tuple[RankForm, ...] = ()
    """Of unread nodes: what the engine of the rank says of itself, which needs no look at its process."""

    flags_by: str = ""
    """Whose word they were read by, and why that is not the engine's own where it is not."""

    @property
    def whole(self) -> bool:
        """Could every node be read, and does every rank run?"""
        return not (self.unread or self.absent or self.ended or self.asleep)


def reading(quick: bool) -> Check:
    """What a survey has to ask, in the shape in which checks ask it."""
    return Check(
        code="live",
        level=Level.OFF,
        description="How the ranks really run.",
        evaluate=lambda scene: iter(()),
        needs=QUICK if quick else (*QUICK, *AROUND),
        asks=_changes if quick else _asks,
    )


HASHING = Check(
    code="hashes",
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
        found = of_rank(scene, node)
        if found is not None and found.container is not None:
            yield changed_in(node, found.program.owner)


# ------------------------------------------------------------------------------------------------------------- a side


def live(scene: Scene) -> Seen:
    """Every rank as it runs, as it ended, or (where there is nothing of it) as it is wanted."""
    forms: list[RankForm] = []
    absent: list[int] = []
    ended: list[int] = []
    asleep: list[int] = []
    unread, missing = dict(_unread(scene)), {}
    for rank, node in enumerate(scene.deployment.nodes):
        if node in unread:
            continue
        found = of_rank(scene, node)
        kept = _kept(scene, node) if found is None else None
        if found is not None:
            form = _running(scene, node, found)
        elif kept is not None and _ran(form := _made(scene, node, kept), kept):
            ended.append(rank)
        else:
            form = _wanted(scene, rank)
            (absent if kept is None else asleep).append(rank)
        program = found.program if found is not None else None
        forms.append(_whole(scene, rank, form, program))
        missing[rank] = {**unsaid(scene, node, program), **dict(_silent(scene, node, program))}
    label = "live" if len(absent) + len(asleep) < len(forms) or not forms else "the next start"
    side = Side(label=label, kind="live", ranks=tuple(forms))
    return Seen(
        side=side,
        unread=unread,
        unsaid=missing,
        absent=tuple(absent),
        ended=tuple(ended),
        asleep=tuple(asleep),
        heard=tuple(_heard(scene, unread)),
        flags_by=_flags_by(scene),
    )


def _flags_by(scene: Scene) -> str:
    table = scene.parser or shipped(scene.deployment.engine)
    if not table.flags:
        return ""
    why = f": {scene.unasked}" if scene.unasked and not table.own else ""
    return table.label(scene.deployment.runtime) + why


def _heard(scene: Scene, unread: Collection[str]) -> Iterator[RankForm]:
    for rank, node in enumerate(scene.deployment.nodes):
        ours = running_by_mark(scene, node) if node in unread and node in scene.nodes else None
        words = scene.says.get((node, ours)) if ours is not None else None
        if words and not isinstance(words, Unknown):
            yield veiled(RankForm(rank=rank, node=node, engine=scene.deployment.engine, says=words), scene.veil)


def wanted(scene: Scene) -> Seen:
    """What the next start would run, on nodes as they are; ranks of nodes that cannot be read are left out."""
    unread = {node: why.why for node in scene.deployment.nodes if (why := _blind(scene, node)) is not None}
    ranks = [rank for rank, node in enumerate(scene.deployment.nodes) if node not in unread]
    return Seen(
        side=Side(
            label="the next start",
            kind="deployment",
            ranks=tuple(_whole(scene, rank, _wanted(scene, rank), None) for rank in ranks),
        ),
        unread=unread,
        unsaid={rank: unsaid(scene, scene.deployment.nodes[rank], None) for rank in ranks},
        absent=tuple(ranks),
        flags_by=_flags_by(scene),
    )


def beside(known: Side, seen: Seen) -> Side:
    """The other side of a comparison, without what the seen one cannot say."""
    return replace(known, ranks=tuple(without(form, seen.unsaid.get(form.rank, {})) for form in known.ranks))


def _whole(scene: Scene, rank: int, form: RankForm, program: Program | None) -> RankForm:
    """With what lies around it, and without secrets."""
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
        if isinstance(kept, Unknown) and (scene.deployment.runtime != "docker" or of_rank(scene, node) is not None):
            kept = None
        why = (_blind(scene, node), scene.fact(node, PROGRAMS), kept)
        yield from ((node, one.why) for one in why if isinstance(one, Unknown))


def _wanted(scene: Scene, rank: int) -> RankForm:
    spec = rank_specs(scene.deployment, scene.cluster.nodes, scene.owner, 0)[rank]
    image = scene.fact(spec.node, IMAGE)
    return form_of(scene.deployment, spec, image.id if isinstance(image, Image) else None, scene.engine_id)


# ------------------------------------------------------------------------------------------------------------- a rank


def _running(scene: Scene, node: str, found: Found) -> RankForm:
    """The process says what runs, its container how that was made."""
    made = _made(scene, node, found.container) if found.container is not None else RankForm()
    words = scene.says.get((node, found.program.owner))
    return replace(
        made,
        node=node,
        says=None if isinstance(words, Unknown) else words,
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
