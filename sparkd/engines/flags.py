"""The parser table of one engine version -> what a flag is: its real name, the kind of its value, its default.

Tables are made by an engine's parser script. `tables` chooses the one by which a rank is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkd.model.printed import document

SCHEMA = 2
"""1 had no keys of JSON values, no names of parsers and only the variables with a value that could be told."""

JSON_KINDS = ("json", "json-or-text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option of the engine's parser. `name` has no dashes before it.

    `kind`: switch (bare only), bool (bare or `--no-…`), int, float, size (`4k` = 4000, `4K` = 4096), size-auto (the same,
    or `auto` = -1), json, json-or-text, text. `many`: empty for one value, `+` for some, `?` for none or one, `append`
    where repeats add up. `optional`: an empty word, or `None`, stands for nothing.
    """

    name: str
    kind: str = "text"
    aliases: tuple[str, ...] = ()
    many: str = ""
    optional: bool = False
    choices: tuple[Any, ...] = ()
    fields: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of a JSON object: every key that it may have, with the values that it may take (none: whatever fits its type). Empty
    where any key goes."""
    default: Any = None
    group: str = ""

    @property
    def takes_value(self) -> bool:
        return self.kind not in ("switch", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTable:
    """All flags of one engine version, and its variables with what they are unset (None where that is nothing)."""

    engine: str
    version: str
    own: bool = False
    """The image's own parser said it; otherwise it is that of the version that ships with sparkd."""
    flags: Mapping[str, Flag] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    spellings: Mapping[str, str] = field(default_factory=dict)
    """`--long` and `-short` -> name."""
    variables: frozenset[str] = frozenset()
    """Every variable that the engine reads, also those whose default is not known."""

    def label(self, runtime: str) -> str:
        """The source of the table, for people."""
        whose = ("the nodes' own" if runtime == "process" else "the image's own") if self.own else "sparkd's table of"
        return f"{whose} {self.engine} {self.version}"

    def find(self, written: str) -> Flag | None:
        """The flag that `written` (with its dashes, `a_b` as `a-b`) names; a beginning that fits one flag alone counts,
        as it does for argparse."""
        if written in self.spellings:
            return self.flags[self.spellings[written]]
        if not written.startswith("--"):
            return None
        begun = {name for spelling, name in self.spellings.items() if spelling.startswith(written)}
        return self.flags[begun.pop()] if len(begun) == 1 else None


def parse_table(text: str, own: bool = False) -> FlagTable:
    """The table that a parser script prints. Raises ValueError when it is not one."""
    try:
        raw = document(text)
    except json.JSONDecodeError:
        said = f"{text.strip()[:60]!r} is no JSON" if text.strip() else "nothing was printed"
        raise ValueError(f"not a parser table: {said}") from None
    except ValueError as odd:
        raise ValueError(f"not a parser table: {odd}") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise ValueError(f"not a parser table of schema {SCHEMA}")
    try:
        flags = {name: _flag(name, said) for name, said in raw["flags"].items()}
        spellings = {spelling: flag.name for flag in flags.values() for spelling in (f"--{flag.name}", *flag.aliases)}
        return FlagTable(
            engine=str(raw["engine"]),
            version=str(raw["version"]),
            own=own,
            flags=flags,
            env=dict(raw["env"]),
            spellings=spellings,
            variables=frozenset(map(str, raw["variables"])) | frozenset(raw["env"]),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a parser table: {error!r}") from None


def _flag(name: str, said: Mapping[str, Any]) -> Flag:
    lists = {key: tuple(said[key]) for key in ("aliases", "choices") if key in said}
    fields = {str(key): tuple(choices) for key, choices in said.get("fields", {}).items()}
    flag = Flag(name=name, **{**said, **lists, "fields": fields})
    words: tuple[object, ...] = (flag.kind, flag.many, *flag.aliases)
    odd = [word for word in words if not isinstance(word, str)]
    if odd:  # whatever ran in the image printed this: what is no word here would fail a check in the middle
        raise TypeError(f"{name}: {odd[0]!r} is no text")
    return flag
