"""vLLM's own argument parser, asked inside an image -> the table that `sparkd/engines/flags.py` reads, as JSON on stdout.

Run by the Python of an image, as text (`python3 - < parser_script.py > flags-0.32.json`, or `-c`). Nothing of sparkd is
imported, nothing but the standard library before vLLM itself.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

_PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
"""Newest first: the module moved in 0.32."""

_KINDS = {
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-auto",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "json-or-text",
    "int": "int",
    "float": "float",
    "bool": "bool",
}
"""Name of the type function -> kind; whatever else takes the text as it is."""

_REGISTRIES = {
    "tool-call-parser": ("ToolParserManager", ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers")),
    "reasoning-parser": ("ReasoningParserManager", ("vllm.reasoning",)),
}
"""Flag -> the registry that knows its names. argparse lets any name through; the engine refuses an unknown one after ten
more seconds of start (evidence 16)."""

_OBJECTS = {"speculative-config": ("vllm.config", "SpeculativeConfig")}
"""Flags that argparse reads as any JSON, and the class that is made of it later."""

_MADE_UP = frozenset({"VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"})
"""Another name in every process."""

_SERVE_SETS = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
"""`vllm serve` sets it where it is not set (cli_env_setup), whatever the default of vllm.envs."""


def table() -> dict[str, Any]:
    """Flags, environment and their defaults, as this vLLM has them."""
    parser = _parser()
    groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    flags = {}
    for action in parser._actions:
        names = [name for name in action.option_strings if not name.startswith("--no-")]
        if names and action.dest != "help":
            flags[names[0].removeprefix("--")] = _flag(action, names, str(groups.get(id(action), "")))
    for name, (manager, modules) in _REGISTRIES.items():
        if name in flags and (registered := _registered(manager, modules)):
            flags[name]["choices"] = registered
    return {
        "schema": 2,
        "engine": "vllm",
        "version": import_module("vllm.version").__version__.partition("+")[0],
        "flags": flags,
        "env": _environment(),
        "variables": sorted(import_module("vllm.envs").environment_variables),
    }


def _parser() -> argparse.ArgumentParser:
    platform = import_module("vllm.platforms").current_platform
    if not platform.device_type:
        platform.device_type = (
            "cuda"  # there is no GPU where we ask, and some defaults refuse to be made without a device
        )
    flexible = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    for name in _PARSERS:
        try:
            make = import_module(name).make_arg_parser
        except ModuleNotFoundError:
            continue  # another version keeps it elsewhere
        parser: argparse.ArgumentParser = make(flexible(prog="vllm serve"))
        return parser
    raise SystemExit("this vLLM keeps its parser in none of the known places")


def _registered(manager: str, modules: tuple[str, ...]) -> list[str]:
    """Names of parsers; empty where this version keeps none that can be listed."""
    for name in modules:
        try:
            return sorted(map(str, getattr(import_module(name), manager).list_registered()))
        except (ImportError, AttributeError):
            continue  # another version keeps it elsewhere
    return []


def _flag(action: argparse.Action, names: list[str], group: str) -> dict[str, Any]:
    """Empty fields are left out: of some three hundred flags few have all."""
    said = {
        "kind": _kind(action),
        "optional": getattr(action.type, "__name__", "") == "_optional_type",
        "aliases": names[1:],
        "many": {"+": "+", "*": "+", "?": "?"}.get(str(action.nargs), "append" if _appends(action) else ""),
        "choices": [_plain(choice) for choice in action.choices or () if choice is not None],
        "default": None if action.default == argparse.SUPPRESS else _plain(action.default),
        "group": group,
        "fields": _fields(_object(names[0].removeprefix("--"), action)),
    }
    return {name: value for name, value in said.items() if value is not None and (value or name == "default")}


def _appends(action: argparse.Action) -> bool:
    return type(action).__name__ == "_AppendAction"


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "bool" if type(action).__name__ == "BooleanOptionalAction" else "switch"
    return _KINDS.get(getattr(_type(action), "__name__", ""), "text")


def _type(action: argparse.Action) -> Any:
    """The function that reads the value, out of its wrappings."""
    function: Any = action.type
    while getattr(function, "__closure__", None) and function.__name__ in ("_optional_type", "_parse_type"):
        function = function.__closure__[0].cell_contents
    return function


def _object(name: str, action: argparse.Action) -> Any:
    """The class that a JSON value becomes, None where it stays plain."""
    function = _type(action)
    if getattr(function, "__name__", "") == "parse_dataclass":
        return (function.__defaults__ or (None,))[0]
    if name in _OBJECTS:
        module, cls = _OBJECTS[name]
        return getattr(import_module(module), cls, None)
    return None


def _fields(cls: Any) -> dict[str, list[Any]]:
    """Key -> the values that it may take, of a class that refuses other keys; empty where that cannot be told."""
    decorators = getattr(cls, "__pydantic_decorators__", None)
    forbids = (getattr(cls, "__pydantic_config__", None) or {}).get("extra") == "forbid"
    if not (is_dataclass(cls) and forbids and decorators is not None):
        return {}
    if any(one.info.mode == "before" for one in decorators.model_validators.values()):
        return {}  # it may rename keys
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that only a type checker can resolve; then the keys alone are known
        hints = {}
    # What a validator changes beforehand may be spelled in ways that the type does not have.
    lenient = {f for one in decorators.field_validators.values() if one.info.mode != "after" for f in one.info.fields}
    return {
        one.name: [] if one.name in lenient or "*" in lenient else _literals(hints.get(one.name)) for one in fields(cls)
    }


def _literals(hint: Any) -> list[Any]:
    """The values of a type that is Literals and None alone; empty of any other."""
    parts = list(_parts(hint))
    if not all(typing.get_origin(part) is typing.Literal for part in parts):
        return []
    values = [value for part in parts for value in typing.get_args(part)]
    return sorted(values) if all(isinstance(value, str) for value in values) else []


def _parts(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from _parts(part)
    elif hint is not type(None):
        yield hint


def _environment() -> dict[str, Any]:
    """Variables of vLLM and what they are without being set. Left out: paths, addresses, names made up on each call."""
    found, variables = {}, import_module("vllm.envs").environment_variables
    for name in variables:
        os.environ.pop(name, None)  # a default is what is so without being set, and images set some
    for name, value in variables.items():
        try:
            default, again = _plain(value()), _plain(value())
        except Exception:  # some look for hardware, each in its own way; then there is no default
            continue
        is_place = isinstance(default, str) and (default[:1] in "/~" or "://" in default)
        if name not in _MADE_UP and not is_place and default == again and not isinstance(default, list | dict):
            found[name] = default
    return {**found, **_SERVE_SETS}


def _plain(value: Any) -> Any:
    """As JSON; what cannot be said in JSON is nothing."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain({name: one for name, one in asdict(value).items() if not name.startswith("_")})
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str) else None


def main() -> None:
    """One line on stdout, whatever else vLLM and its libraries print; with a number as argument, within so many seconds."""
    if len(sys.argv) > 1:
        signal.alarm(int(sys.argv[1]))  # also when nobody is left to end us
    sys.path = [folder for folder in sys.path if folder]  # the working folder is no place of packages
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        del os.environ[name]  # defaults of flags follow some
    answer = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answer, "w") as out:
        json.dump(table(), out, separators=(",", ":"), sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
