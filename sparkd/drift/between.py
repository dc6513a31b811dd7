"""The ranks of one group -> in what they differ and should not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkd.drift import fixes, said
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import RankForm, Side
from sparkd.drift.severities import (
    CREATED_APART,
    DIFFERENT_IMAGES,
    DISAGREE,
    MUST_AGREE,
    NODES_APART,
    SET_APART,
    lost_json,
    of_node,
    rule_for,
)
from sparkd.drift.values import NotJson, same
from sparkd.engines import like
from sparkd.engines.flags import FlagTable
from sparkd.engines.tables import Tables
from sparkd.model.rank import IDENTITY


def ranks(side: Side, tables: Tables) -> list[Difference]:
    """Every rank against the first."""
    return [found for other in side.ranks[1:] for found in two(side.ranks[0], other, tables)]


def two(head: RankForm, other: RankForm, tables: Tables) -> Iterator[Difference]:
    """Differences between two ranks; `known` has the value of the first. Names of nodes and flags of the API may differ."""
    for name, one, two_, why, severity in _changes(head, other, head.table(tables)):
        yield Difference(
            severity=severity,
            kind="rank",
            name=name,
            known=str(one) if isinstance(one, NotJson) else one,
            live=str(two_) if isinstance(two_, NotJson) else two_,
            rank=other.rank,
            node=other.node,
            why=why,
            fix=fixes.WHOLE_JSON
            if isinstance(one, NotJson) or isinstance(two_, NotJson)
            else f"give rank {head.rank} and rank {other.rank} the same",
        )
    yield from (found for form in (head, other) for found in _opens_an_api(form))


def _opens_an_api(form: RankForm) -> Iterator[Difference]:
    """A worker by its number, started as if it were the head. Without a number it may be a group of its own.

    Neither side has the flag, so no comparison of values shows it: two hours of the first field report.
    """
    own, flags = like(form.engine).rank_flags, form.flags or {}
    number = flags.get(own.number or "")
    if own.worker is None or not isinstance(number, int) or number <= 0 or flags.get(own.worker):
        return
    name = f"--{own.worker}"
    rule = rule_for(form.engine, "flag", name, True, None)
    yield Difference(
        severity=Severity.BREAKS,
        kind="rank",
        name=name,
        rank=form.rank,
        node=form.node,
        why=rule.sentence if rule is not None else None,
        fix=f"give rank {form.rank} `{name}`",
    )


_Change = tuple[str, Any, Any, str, Severity]
"""Name, what the first says, what the other says, why that matters, how much."""


def _changes(head: RankForm, other: RankForm, table: FlagTable) -> Iterator[_Change]:
    flags = list(_flags(head, other, table))
    yield from flags
    told = {name.removeprefix("--") + said.SUFFIX for name, *_ in flags}
    yield from (one for one in said.apart(head, other) if one[0] not in told)
    if head.env_whole is other.env_whole:
        for name, one, two_ in _unlike(head.env, other.env):
            if name not in IDENTITY and not of_node(name, head.engine):
                yield name, one, two_, SET_APART, Severity.UNKNOWN
    if head.container is not None and other.container is not None:
        for name, one, two_ in _unlike(head.container, other.container):
            yield name, one, two_, CREATED_APART, Severity.UNKNOWN
    yield from _around(head, other)
    which = "image_id" if head.image_id and other.image_id else "image"
    one, two_ = getattr(head, which), getattr(other, which)
    if one and two_ and fixes.image(one) != fixes.image(two_):
        yield "image", one, two_, DIFFERENT_IMAGES, Severity.BREAKS


_ALIKE = ("marker ", "build ", "changed ", "library ", "model ", "hash ", "program")
_ALIKE_ON_HOSTS = ("kernel", "driver", "docker", "fabric MTU", "fabric speed")
"""What has to be the same on all nodes; caches fill one after the other, and interfaces have names of their own."""


def only_one_hashed(name: str, one: Any, other: Any) -> bool:
    """Weights are hashed only when a person asks for it: a hash on one side alone is no difference."""
    return name.startswith("hash ") and None in (one, other)


def lies_around(name: str) -> bool:
    """Is a finding of this name about a rank's files or its node?"""
    return name.startswith((*_ALIKE, *_ALIKE_ON_HOSTS))


def _around(head: RankForm, other: RankForm) -> Iterator[_Change]:
    """How bad it is, is what the same change on one rank would be."""
    for kind, one, two_ in (("file", head.files, other.files), ("host", head.host, other.host)):
        if one is None or two_ is None:
            continue
        for name, first, second in _unlike(one, two_):
            if lies_around(name) and not only_one_hashed(name, first, second):
                rule = rule_for(head.engine, kind, name, first, second)
                severity = rule.severity if rule is not None else Severity.UNKNOWN
                yield name, first, second, rule.sentence if rule is not None else NODES_APART, severity


def _flags(head: RankForm, other: RankForm, table: FlagTable) -> Iterator[_Change]:
    if head.flags is None or other.flags is None:
        return
    if head.model != other.model:
        yield "model", head.model, other.model, DISAGREE, Severity.BREAKS
    own = like(head.engine).rank_flags
    for name, one, two_ in _unlike(head.flags, other.flags):
        flag = table.flags.get(name)
        default = flag.default if flag else None
        alike = same(default if one is None else one, default if two_ is None else two_)
        if not (alike or own.is_own(name, flag.group if flag is not None else None)):
            lost = next((value for value in (two_, one) if isinstance(value, NotJson)), None)
            why = MUST_AGREE.get(name, DISAGREE) if lost is None else lost_json(head.engine, f"--{name}", lost)[1]
            yield f"--{name}", one, two_, why, Severity.BREAKS


def _unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted({*one, *other}):
        if not same(one.get(name), other.get(name)):
            yield name, one.get(name), other.get(name)


def joined(found: list[Difference], inside: list[Difference]) -> list[Difference]:
    """One finding for what is both: new against the known side, and different between the live side's ranks."""
    worse = {one.name: one for one in inside if one.severity is Severity.BREAKS}
    raised = [_raised(one, worse.get(_base(one.name))) for one in found]
    told = {_base(one.name) for one in found if one.severity is not Severity.BENIGN or one.rank is not None}
    return [*raised, *(one for one in inside if one.name not in told)]


def _base(name: str) -> str:
    """A finding about one key of a JSON value is about its flag."""
    return name.partition(".")[0] if name.startswith("--") else "image" if name == "id" else name


def _raised(one: Difference, inside: Difference | None) -> Difference:
    if inside is None or one.rank is None or one.severity is Severity.BREAKS:
        return one
    return replace(one, severity=Severity.BREAKS, why=inside.why, fix=one.fix or inside.fix)
