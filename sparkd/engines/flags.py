"""The parser table of one engine version -> what a flag is: its real name, the kind of its value, its default.

The tables ship as data beside this file, made by `vllm_parser.py`; reading one is like importing it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

SHIPPED = {"vllm": "0.32"}
"""Engine -> the version whose table ships."""

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
    flags: Mapping[str, Flag] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    spellings: Mapping[str, str] = field(default_factory=dict)
    """`--long` and `-short` -> name."""

    def find(self, written: str) -> Flag | None:
        """The flag that `written` (with its dashes, `a_b` as `a-b`) names; a beginning that fits one flag alone counts,
        as it does for argparse."""
        if written in self.spellings:
            return self.flags[self.spellings[written]]
        if not written.startswith("--"):
            return None
        begun = {name for spelling, name in self.spellings.items() if spelling.startswith(written)}
        return self.flags[begun.pop()] if len(begun) == 1 else None


def parse_table(text: str) -> FlagTable:
    """The table that `vllm_parser.py` prints. Raises ValueError when it is not one."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.get("schema") != 1:
        raise ValueError("not a parser table of schema 1")
    flags = {name: _flag(name, fields) for name, fields in raw["flags"].items()}
    spellings = {spelling: flag.name for flag in flags.values() for spelling in (f"--{flag.name}", *flag.aliases)}
    return FlagTable(engine=raw["engine"], version=raw["version"], flags=flags, env=raw["env"], spellings=spellings)


def _flag(name: str, fields: Mapping[str, Any]) -> Flag:
    lists = {key: tuple(fields[key]) for key in ("aliases", "choices") if key in fields}
    return Flag(name=name, **{**fields, **lists})


@cache
def shipped(engine: str) -> FlagTable:
    """The table that ships for `engine`; an empty one where there is none: then flags are read by their looks."""
    version = SHIPPED.get(engine)
    if version is None:
        return FlagTable(engine=engine, version="")
    return parse_table(files("sparkd.engines").joinpath(f"{engine}-{version}.json").read_text("utf-8"))
