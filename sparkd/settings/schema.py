"""The dataclasses of `sparkd.model.config` -> JSON Schema (draft 2020-12) of the two files, for editors.

It is written from what the loader reads and from the loader's own tables, and refuses nothing that the loader takes:
what only a whole look can judge (a node that is not there, two ports that clash) stays with `sparkd config check`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from sparkd.checks import all_checks
from sparkd.engines import ENGINES
from sparkd.model.config import Cluster, Deployment
from sparkd.settings import power_rules, shared_rules
from sparkd.settings.deployment import FIXED
from sparkd.settings.deployment_rules import MARKER_KEYS, OPEN_KEYS, RUNTIMES, VARIABLE
from sparkd.settings.shape import INTERNAL
from sparkd.settings.shared_rules import RANGES, WORDS
from sparkd.settings.tree import Path

Json = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
UNIT = "x-unit"
"""An annotation of ours: what a number counts."""
EACH = "*"
"""In a path: any name, or any place in a list."""

_ABOUT: dict[type, str] = {
    Cluster: "sparkd.yaml: the cluster, and how sparkd looks after it.",
    Deployment: "A deployment file: one group of ranks, and what they run.",
}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_SECRET: Json = {
    "type": "object",
    "description": "The file that holds the value, read when a rank is created.",
    "properties": {"file": {"type": "string", "description": "Path on the head."}},
    "required": ["file"],
    "additionalProperties": False,
}
_HEADER: Json = {**_SECRET, "description": "The file that holds the value, read when the request is sent."}
_NAMES: dict[Path, str] = {
    ("nodes",): shared_rules.NODE_NAME,
    ("profiles",): shared_rules.SMALL_NAME,
    ("env",): VARIABLE,
    ("node_env", EACH): VARIABLE,
    ("secrets",): VARIABLE,
}
"""Mappings whose keys a person chooses, and what they may look like."""
_WORDS: dict[Path, tuple[str, ...]] = {("engine",): tuple(ENGINES), ("runtime",): RUNTIMES, **WORDS}
_WORDS["nodes", EACH, "power", "method"] = power_rules.METHODS
_OPEN: dict[Path, Json] = {
    ("checks",): {
        "propertyNames": {"enum": [check.code for check in all_checks()]},
        "additionalProperties": {"enum": list(shared_rules.CHECK_LEVELS)},
    },
    ("secrets",): {"additionalProperties": _SECRET},
    ("nodes", EACH, "power", "headers"): {"additionalProperties": _HEADER},
    ("warmup", "expect"): {"properties": {"reasoning": {"type": "boolean"}, "contains": {"type": "string"}}},
    ("memory",): {
        "properties": {
            "gate": {"enum": list(WORDS["memory", "gate"])},
            "reads": {"enum": list(WORDS["memory", "reads"])},
            "reserve": {"type": "object"},
            "guard": {"type": "object"},
        }
    },
    ("container", "ulimits"): {"additionalProperties": {"type": "integer", "minimum": -1}},
}
"""What the loader asks of mappings and the types do not say."""


def cluster_schema() -> Json:
    """The schema of sparkd.yaml."""
    return _whole(Cluster)


def deployment_schema() -> Json:
    """The schema of a deployment file. A profile may hold every key but those that make it another deployment."""
    schema = _whole(Deployment)
    kept = {key: {"$ref": f"#/properties/{key}"} for key in schema["properties"] if key not in FIXED}
    schema["properties"]["profiles"]["additionalProperties"] = {
        "type": "object",
        "description": "Keys of this file, over those above.",
        "properties": kept,
        "additionalProperties": False,
    }
    return schema


def _whole(kind: type) -> Json:
    sections: Json = {}
    whole = _section(kind, (), sections) | {"description": _ABOUT[kind]}
    return {"$schema": DRAFT, "title": _ABOUT[kind].partition(":")[0], **whole, "$defs": sections}


def _section(kind: type, path: Path, sections: Json) -> Json:
    """A mapping with the keys of one dataclass, and no others."""
    hints, says = get_type_hints(kind, include_extras=True), meanings(kind)
    own = [field for field in fields(kind) if field.name not in INTERNAL and not (path and field.name == "name")]
    properties: Json = {}
    for field in own:
        here = (*path, field.name)
        found = {
            "title": dotted(here),
            "description": says.get(field.name, ""),
            **_value(hints[field.name], here, sections),
        }
        properties[field.name] = found | _default(field)
    needed = [field.name for field in own if field.default is MISSING and field.default_factory is MISSING]
    schema: Json = {"type": "object", "description": _told(kind), "properties": properties}
    return schema | ({"required": needed} if needed else {}) | {"additionalProperties": False}


def _value(hint: Any, path: Path, sections: Json) -> Json:
    """What may stand at `path`."""
    if get_origin(hint) is Annotated:
        plain, unit = get_args(hint)
        return {**_value(plain, path, sections), UNIT: unit}
    if type(None) in get_args(hint):
        return _or_nothing(_value(next(arm for arm in get_args(hint) if arm is not type(None)), path, sections))
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in sections:
            sections[hint.__name__] = _section(hint, path, sections)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _value(get_args(hint)[0], (*path, EACH), sections)}
    if get_origin(hint) is Mapping:
        return _mapping(get_args(hint)[1], path, sections)
    return _scalar(hint, path)


def _mapping(inner: Any, path: Path, sections: Json) -> Json:
    if path in OPEN_KEYS or path == ("markers", EACH):
        known = OPEN_KEYS.get(path, MARKER_KEYS)
        keys = {key: OPEN_KEYS.get((*path, key)) for key in known}
        properties = {key: _closed(names) if names else {} for key, names in keys.items()}
        properties |= {key: properties[key] | more for key, more in _OPEN.get(path, {}).get("properties", {}).items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    schema: Json = {"type": "object", "additionalProperties": _value(inner, (*path, EACH), sections)}
    if path in _NAMES:
        schema["propertyNames"] = {"pattern": f"^({_NAMES[path]})$"}
    return schema | _OPEN.get(path, {})


def _closed(names: tuple[str, ...]) -> Json:
    return {"type": "object", "properties": {name: {} for name in names}, "additionalProperties": False}


def _scalar(hint: Any, path: Path) -> Json:
    if hint not in _TYPES:
        return {}
    schema: Json = {"type": _TYPES[hint]}
    words = _WORDS.get(path)
    if words:
        schema["enum"] = list(words)
    elif hint in (int, float) and path[-1] in RANGES:
        schema |= dict(zip(("minimum", "maximum"), RANGES[str(path[-1])], strict=True))
    elif hint in (int, float):
        schema["exclusiveMinimum"] = 0
    elif path == ("name",):
        schema["pattern"] = f"^({shared_rules.SMALL_NAME})$"
    return schema


def _or_nothing(schema: Json) -> Json:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    nothing = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **nothing}


def _default(field: Field[Any]) -> Json:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING or is_dataclass(value):
        return {}
    return {"default": list(value) if isinstance(value, tuple) else value}


def dotted(path: Path) -> str:
    """The key as a person looks it up: `container.mounts[].source`, `nodes.NAME.address`."""
    steps = [str(step) if step != EACH else "NAME" for step in path]
    return ".".join(steps).replace("mounts.NAME", "mounts[]")


def _told(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


@cache
def meanings(kind: type) -> Mapping[str, str]:
    """Field -> the text that stands below it in the source."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found
