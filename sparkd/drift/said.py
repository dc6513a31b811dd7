"""What an engine says of itself, beside its command line -> the flags it really runs with, and what became of them. Pure.

A `--config` file, a wrapper or a default changes what runs and no word of the command line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import RankForm
from sparkd.drift.severities import MUST_AGREE
from sparkd.drift.values import by_kind, plain, same
from sparkd.engines.flags import Flag, FlagTable
from sparkd.model.printed import Unread
from sparkd.model.secret import is_secret

GIVEN, IN_USE = "given", "in-use"
"""Parts of a form's `says`: what its parser was given that is no default; what became of flags, and its version."""
SUFFIX = " in use"
SERVED = f"served-model-name{SUFFIX}"
"""Without a given name this is the name of the model itself."""

REST = "rest"
"""A third part, which no form has: pages and logs of the engine that could not be read at all."""

Flags = Mapping[str, Any]

_WHAT = {GIVEN: "--{} by its log", IN_USE: f"{{}}{SUFFIX}", REST: "{}"}
"""Part -> how a value of it is called, for people; `without` goes by the same words."""


def readable(words: Flags) -> dict[str, dict[str, Any]]:
    """The part of an engine's words that could be read, for a form."""
    return {
        part: {name: value for name, value in found.items() if not isinstance(value, Unread)}
        for part, found in words.items()
        if part != REST
    }


def unreadable(words: Flags) -> Iterator[tuple[str, str]]:
    """What is in an engine's words and could not be read, and why."""
    for part, found in words.items():
        yield from ((_WHAT[part].format(name), value.why) for name, value in found.items() if isinstance(value, Unread))


def given(name: str) -> str:
    """How `unreadable` calls a flag that the log says was given."""
    return _WHAT[GIVEN].format(name)


def without(form: RankForm, keys: Collection[str]) -> RankForm:
    """The form without the values that were `unreadable` on the other side."""
    if not form.says:
        return form
    says = {
        part: {name: value for name, value in found.items() if _WHAT.get(part, "").format(name) not in keys}
        if isinstance(found, Mapping)
        else found
        for part, found in form.says.items()
    }
    return replace(form, says=says)


def both(known: RankForm, live: RankForm, table: FlagTable) -> tuple[Flags | None, Flags | None]:
    """The flags of both sides by the engines' own words; by their command lines where the live one's cannot be read."""
    if _part(live, GIVEN) is None:
        return known.flags, live.flags
    return _overlaid(known, table), _overlaid(live, table)


def source(name: str, live: RankForm, table: FlagTable) -> str | None:
    """The source of the live value of this flag, where that is not the command line."""
    log, bare = _part(live, GIVEN) or {}, name.removeprefix("--")
    if bare not in log or same(_told(log[bare], table.flags.get(bare)), (live.flags or {}).get(bare)):
        return None
    if live.flags is None:
        return "by the engine's own start-up log: its command line could not be read"
    told = f"says {live.flags[bare]}" if bare in live.flags else "does not say it"
    return f"by the engine's own start-up log; its command line {told}: look for a `--config` file or a wrapper"


def became(known: RankForm, live: RankForm) -> Iterator[Difference]:
    """Values that the engine made of its flags, where they differ from those when it worked, or from what the file asks for."""
    asked = {name: value for name, value in (known.flags or {}).items() if _is_amount(value)}
    before = {**asked, **(_part(known, IN_USE) or {})}
    for name, value in (_part(live, IN_USE) or {}).items():
        if name in before and not same(before[name], value):
            yield Difference(
                severity=Severity.UNKNOWN,
                kind="flag",
                name=name + SUFFIX,
                known=before[name],
                live=value,
                why=_WHY.get(name, "the engine says so of itself: it took another value than the command line tells"),
                fix=_FIX.get(name, "look at its start-up log, and for a `--config` file"),
            )


def apart(head: RankForm, other: RankForm) -> Iterator[tuple[str, Any, Any, str, Severity]]:
    """The same between two ranks of one group."""
    one, two = _part(head, IN_USE) or {}, _part(other, IN_USE) or {}
    for name, why in _ALIKE.items():
        if name in one and name in two and not same(one[name], two[name]):
            yield name + SUFFIX, one[name], two[name], why, Severity.BREAKS


_WHY = {
    "max-model-len": "the engine itself reports it: with the same arguments it takes what the model's config.json says, or "
    "what its memory has room for",
    "version": "the engine itself reports it: the same command runs another version",
    "served-model-name": "clients ask for a model by this name, and get 404 for another",
}
_FIX = {
    "version": "look what the image, or the mount that the engine lies in, holds now",
    "max-model-len": "compare the model's config.json with the one that worked, and give --max-model-len a number",
}
_ALIKE = {
    "max-model-len": MUST_AGREE["max-model-len"],
    "version": "ranks of different engine versions do not understand each other (eugr#24; gpustack#5109)",
}


def _part(form: RankForm, name: str) -> Flags | None:
    found = (form.says or {}).get(name)
    return found if isinstance(found, Mapping) else None


def _overlaid(form: RankForm, table: FlagTable) -> Flags | None:
    log = _part(form, GIVEN)
    if log is None:
        return form.flags
    flags = dict(form.flags or {})
    for name, value in log.items():
        flag = table.flags.get(name)
        argued = flags.get(name, flag.default if flag is not None else None)
        known = (flag is not None or name in flags) and not is_secret(name)  # which it prints as stars
        # What is an object is printed with every field that it has, said or not.
        told = _told(value, flag)
        if known and not isinstance(argued, Mapping) and not same(argued, told):
            flags[name] = told
    return flags


def _told(value: Any, flag: Flag | None) -> Any:
    return by_kind(value, flag) if flag is not None and isinstance(value, str) else plain(value)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
