"""The record of a configuration that worked <-> a side of a comparison.

A YAML file made to be read and to be kept in git: keys in order, one value a line, no secret in it. `schema: 1`,
`kind: known-good`, what is known of that time (deployment, generation, recorded, note, measured, answer), and `ranks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sparkd.drift.form import RankForm, Side
from sparkd.drift.values import NotJson, from_json, plain
from sparkd.drift.veil import Veil
from sparkd.drift.yaml import dump
from sparkd.engines import FIRST
from sparkd.engines.tables import SHIPPED, Tables

KIND = "known-good"
_ABOUT = ("deployment", "generation", "recorded", "note", "pinned", "measured", "answer")
_FIELDS = {field.name for field in fields(RankForm)}
_MAPPINGS = ("flags", "env", "container", "mounts", "unit", "files", "host", "says")
_TEXTS = ("node", "engine", "model", "image", "image_id")


def as_yaml(side: Side, about: Mapping[str, Any]) -> str:
    """The file of a side. `about` may hold deployment, generation, recorded (RFC 3339), note, pinned, measured (rates),
    answer (to the fixed question)."""
    veil = Veil.of(side.ranks)
    record = {
        "schema": 1,
        "kind": KIND,
        **{key: about[key] for key in _ABOUT if key in about},
        "ranks": [_rank(form, veil) for form in side.ranks],
    }
    return dump(record, f"What ran when it worked. `sparkd compare` reads it: {side.label}")


def _rank(form: RankForm, veil: Veil) -> dict[str, Any]:
    said = {name: value for name, value in asdict(form).items() if value not in (None, (), False)}
    if form.flags:  # JSON that is none is kept as the text that the engine got
        said["flags"] = {key: str(value) if isinstance(value, NotJson) else value for key, value in form.flags.items()}
    return {name: _words(veil.tree(value, name), name) for name, value in said.items()}


def _words(value: Any, name: str) -> Any:
    if name in _MAPPINGS:
        return {key: value[key] for key in sorted(value)}  # in one order, so that git shows what changed
    return value if isinstance(value, int | str) else list(value)


def from_plain(record: Mapping[str, Any], label: str, tables: Tables = SHIPPED) -> Side:
    """The side of a file's values, its flags read by `tables`. Raises ValueError with one sentence when it is no such record."""
    if record.get("kind") != KIND or record.get("schema") != 1:
        raise ValueError("not a known-good record of schema 1")
    ranks = record.get("ranks")
    if not isinstance(ranks, list) or not ranks:
        raise ValueError("it holds no ranks")
    return Side(label=label, kind=KIND, ranks=tuple(_form(one, tables) for one in ranks))


def _form(one: Any, tables: Tables) -> RankForm:
    if not isinstance(one, Mapping):
        raise ValueError("a rank is a mapping")
    if unknown := sorted(set(one) - _FIELDS):
        raise ValueError(f"a rank has no `{unknown[0]}`")
    if not isinstance(one.get("rank", 0), int):
        raise ValueError(f"`rank: {one['rank']}` is no number")
    if wrong := next((key for key in _MAPPINGS if not isinstance(one.get(key, {}), Mapping)), None):
        raise ValueError(f"`{wrong}` of a rank is a mapping")
    if wrong := next((key for key in _TEXTS if not isinstance(one.get(key), str | None)), None):
        raise ValueError(f"`{wrong}` of a rank is a text")
    program = one.get("program", [])
    if not isinstance(program, list) or not all(isinstance(word, str) for word in program):
        raise ValueError("`program` of a rank is a list of words")
    said = {**one, "flags": _flags(one, tables), "env_whole": one.get("env_whole") is True}
    env = {name: str(value) for name, value in one.get("env", {}).items()}
    said = {key: value for key, value in said.items() if value is not None}
    return RankForm(**{**said, "env": env, "program": tuple(program)})


def _flags(one: Mapping[str, Any], tables: Tables) -> dict[str, Any] | None:
    """Text where the engine wants JSON was no JSON."""
    if one.get("flags") is None:
        return None
    flags = tables.of(str(one.get("engine", FIRST)), one.get("engine_id") or one.get("image_id")).flags
    return {
        name: from_json(value)
        if isinstance(value, str) and name in flags and flags[name].kind == "json"
        else plain(value)
        for name, value in one["flags"].items()
    }
