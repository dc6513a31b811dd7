"""Two sides -> every difference between them, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkd.drift import between, fixes, said
from sparkd.drift.container import FROM_IMAGE
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import Gap, RankForm, Side
from sparkd.drift.judge import judge
from sparkd.drift.severities import of_engine
from sparkd.drift.values import same
from sparkd.drift.veil import Veil
from sparkd.engines.flags import FlagTable
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.model.rank import IDENTITY
from sparkd.model.secret import HIDDEN, is_secret
from sparkd.model.secret_text import without_passwords

SECTIONS = ("flags", "image", "container", "mounts", "unit", "files", "host")

_Change = tuple[str, Any, Any]
"""Name, known, live."""


def compare(known: Side, live: Side, rank: int | None = None, tables: Tables = SHIPPED) -> tuple[Difference, ...]:
    """Worst first, then in rank order; what all compared ranks share is one difference. Equal sides give nothing. `tables`: those
    by which the sides' flags were read."""
    pairs = paired(known, live, rank)
    veil = Veil.of((*known.ranks, *live.ranks))
    found = [each for one, other in pairs for each in _rank(one, other, _gaps(known, live), tables)]
    if len(pairs) == 1 and pairs[0][0].rank != pairs[0][1].rank:
        found = list(between.two(*pairs[0], tables))  # a head and a worker: what has to be equal in one group
    elif rank is None:
        found = between.joined(_shared(found, len(pairs)), _between(known, live, tables))
    found += _unfollowed(known, live)
    hidden = [replace(one, known=_veiled(veil, one, "known"), live=_veiled(veil, one, "live")) for one in found]
    return tuple(
        sorted(
            (
                replace(one, name=veil.text(one.name), why=_text(veil, one.why), fix=_text(veil, one.fix))
                for one in hidden
            ),
            key=lambda one: (-one.severity.badness, one.rank or 0),
        )
    )


def _between(known: Side, live: Side, tables: Tables) -> list[Difference]:
    """The differences between the live ranks, without those around the ranks that were there when it worked."""
    before = {repr((one.name, one.rank, one.known, one.live)) for one in between.ranks(known, tables)}
    return [
        one
        for one in between.ranks(live, tables)
        if not (between.lies_around(one.name) and repr((one.name, one.rank, one.known, one.live)) in before)
    ]


def not_compared(known: Side, live: Side, rank: int | None = None) -> tuple[str, ...]:
    """What only one side says anything about: sections, and ranks; each as `WHAT: SIDE does not say`."""
    pairs = paired(known, live, rank)
    missing: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for section in sorted(SECTIONS):
        for side, which in ((known, 0), (live, 1)):
            silent = (pair for pair in pairs if getattr(pair[which], section) is None)
            ranks = tuple(pair[1].rank for pair in silent if getattr(pair[1 - which], section) is not None)
            if ranks:
                missing.setdefault((side.label, ranks), []).append(section)
    sections = [
        f"{', '.join(said)}{'' if len(ranks) == len(pairs) else _of_ranks(ranks)}: {label} does not say"
        for (label, ranks), said in missing.items()
    ]
    both = {id(form) for pair in pairs for form in pair}
    alone = [
        f"rank {form.rank}: {other.label} does not say"
        for side, other in ((known, live), (live, known))
        for form in side.ranks
        if id(form) not in both and rank is None
    ]
    return (*sections, *alone)


def _of_ranks(ranks: tuple[int, ...]) -> str:
    return f" of rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def paired(known: Side, live: Side, rank: int | None = None) -> list[tuple[RankForm, RankForm]]:
    """The ranks that are compared: of one number, or one of each side, where each has but one."""
    if rank is None and len(known.ranks) == len(live.ranks) == 1:
        return [(known.ranks[0], live.ranks[0])]
    both = ((form, live.rank(form.rank)) for form in known.ranks if rank in (None, form.rank))
    return [(form, other) for form, other in both if other is not None]


# ---------------------------------------------------------------------------------------------------------- one rank


def _rank(known: RankForm, live: RankForm, gaps: tuple[Gap, ...], tables: Tables) -> Iterator[Difference]:
    table = live.table(tables)
    flags = list(_flags(known, live, table))
    for kind, changes in (
        ("flag", flags),
        ("env", _env(known, live)),
        ("image", _image(known, live)),
        ("container", _container(known, live)),
        *((kind, _section(getattr(known, name), getattr(live, name))) for kind, name in _PLAIN),
    ):
        for name, one, other in changes:
            judged = judge(kind, name, one, other, live, table, gaps)
            if kind == "flag" and (source := said.source(name, live, table)):
                judged = replace(judged, why=f"{judged.why}; {source}" if judged.why else source)
            yield replace(judged, rank=live.rank, node=live.node or known.node)
    told = {name.removeprefix("--") for name, _, _ in flags}
    for one in said.became(known, live):
        if one.name.removesuffix(said.SUFFIX) not in told and not (one.name == said.SERVED and "model" in told):
            yield replace(one, rank=live.rank, node=live.node or known.node)


_PLAIN = (("unit", "unit"), ("file", "files"), ("host", "host"))
"""Kind of finding -> section that is compared key by key."""


# --------------------------------------------------------------------------------------------- section by section


def _flags(known: RankForm, live: RankForm, table: FlagTable) -> Iterator[_Change]:
    one, other = said.both(known, live, table)
    if one is None or other is None:
        return
    if known.model != live.model and known.flags is not None and live.flags is not None:
        yield "model", known.model, live.model
    if known.program != live.program and known.program and live.program:
        yield "command", " ".join(known.program), " ".join(live.program)
    for name in sorted({*one, *other}):
        if live.flags is None and isinstance(one.get(name), Mapping):
            continue  # the engine's own log says of an object all that it has
        yield from _value(f"--{name}", one.get(name), other.get(name))


def _value(name: str, known: Any, live: Any) -> Iterator[_Change]:
    """JSON is compared key by key, as far as both sides have it."""
    if isinstance(known, Mapping) and isinstance(live, Mapping):
        for key in sorted({*known, *live}):
            yield from _value(f"{name}.{key}", known.get(key), live.get(key))
    elif not same(known, live) and not _cannot_tell(name.rpartition(".")[2], known, live):
        yield name, known, live


def _env(known: RankForm, live: RankForm) -> Iterator[_Change]:
    for name in sorted({*known.env, *live.env} - set(IDENTITY)):
        one, other = known.env.get(name), live.env.get(name)
        if one == other or _cannot_tell(name, one, other):
            continue
        whole_alone = known.env_whole is not live.env_whole and (one is None) is not known.env_whole
        absent = one is None or other is None
        if absent and whole_alone and not of_engine(name, live.engine):
            continue  # only the running container has it: its image's own
        yield name, one, other


def _cannot_tell(name: str, one: Any, other: Any) -> bool:
    """A secret that one side only refers to."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    if is_secret(name) and any(value[:1] in "<$" for value in (one, other)):
        return True
    if any(value == HIDDEN or value.startswith("<from ") for value in (one, other)):
        return True
    return HIDDEN in one + other and without_passwords(one) == without_passwords(other)


def _image(known: RankForm, live: RankForm) -> Iterator[_Change]:
    if known.image_id and live.image_id:
        if known.image_id != live.image_id:
            yield "id", known.image_id, live.image_id
    elif known.image and live.image and fixes.image(known.image) != fixes.image(live.image):
        yield "name", known.image, live.image


def _container(known: RankForm, live: RankForm) -> Iterator[_Change]:
    if known.container is not None and live.container is not None:
        for key in sorted({*known.container, *live.container}):
            one, other = known.container.get(key), live.container.get(key)
            from_image = key in FROM_IMAGE and known.env_whole is not live.env_whole
            if from_image and (other if known.env_whole else one) is None:
                continue
            yield from _value(key, one, other)
    if known.mounts is not None and live.mounts is not None:
        for target in sorted({*known.mounts, *live.mounts}):
            one, other = known.mounts.get(target), live.mounts.get(target)
            if not same(one, other):
                yield f"mount {target}", one, other


def _section(known: Mapping[str, Any] | None, live: Mapping[str, Any] | None) -> Iterator[_Change]:
    if known is not None and live is not None:
        for name in sorted({*known, *live}):
            one, other = known.get(name), live.get(name)
            if not same(one, other) and not between.only_one_hashed(name, one, other):
                yield name, one, other


# ------------------------------------------------------------------------------------------------------- all together


def _shared(found: Iterable[Difference], ranks: int) -> list[Difference]:
    """The same difference on every compared rank is one, of no rank."""
    grouped: dict[str, list[Difference]] = {}
    for one in found:
        grouped.setdefault(repr((one.kind, one.name, one.known, one.live)), []).append(one)
    merged: list[Difference] = []
    for group in grouped.values():
        worst = max(group, key=lambda one: one.severity.badness)
        merged += [replace(worst, rank=None, node=None)] if len(group) == ranks > 1 else group
    return merged


def _gaps(known: Side, live: Side) -> tuple[Gap, ...]:
    return tuple(gap for gap in (*known.gaps, *live.gaps) if gap.text)


def _unfollowed(known: Side, live: Side) -> list[Difference]:
    """What could not be followed and shows in no value. Both sides alike in it says nothing new."""
    ours, theirs = ({gap.why for gap in side.gaps} for side in (known, live))
    return [
        Difference(severity=Severity.UNKNOWN, kind="file", name=gap.where, why=gap.why)
        for side in (known, live)
        for gap in dict.fromkeys(side.gaps)
        if not gap.text and gap.why not in ours & theirs
    ]


def _veiled(veil: Veil, one: Difference, side: str) -> Any:
    return veil.tree(getattr(one, side), one.name.rpartition(".")[2])


def _text(veil: Veil, text: str | None) -> str | None:
    return None if text is None else veil.text(text)
