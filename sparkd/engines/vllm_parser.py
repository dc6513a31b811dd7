"""vLLM's own argument parser, asked inside an image -> the table that `flags.py` reads, as JSON on stdout.

Read by the Python of an image from its standard input (`python3 - < vllm_parser.py > vllm-0.32.json`): beside this file
lies a `vllm.py` that is not the engine. Nothing of sparkd is imported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
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

_SERVE_SETS = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
"""`vllm serve` sets it where nobody has (cli_env_setup), whatever the default of vllm.envs."""


def table() -> dict[str, Any]:
    """Flags, environment and their defaults, as this vLLM has them."""
    parser = _parser()
    groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    flags = {}
    for action in parser._actions:
        names = [name for name in action.option_strings if not name.startswith("--no-")]
        if names and action.dest != "help":
            flags[names[0].removeprefix("--")] = _flag(action, names, str(groups.get(id(action), "")))
    return {
        "schema": 1,
        "engine": "vllm",
        "version": import_module("vllm.version").__version__.partition("+")[0],
        "flags": flags,
        "env": _environment(),
    }


def _parser() -> argparse.ArgumentParser:
    flexible = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    for name in _PARSERS:
        try:
            make = import_module(name).make_arg_parser
        except ModuleNotFoundError:
            continue  # another version keeps it elsewhere
        parser: argparse.ArgumentParser = make(flexible(prog="vllm serve"))
        return parser
    raise SystemExit("this vLLM keeps its parser in none of the known places")


def _flag(action: argparse.Action, names: list[str], group: str) -> dict[str, Any]:
    """Empty fields are left out: of some three hundred flags few have all."""
    fields = {
        "kind": _kind(action),
        "optional": getattr(action.type, "__name__", "") == "_optional_type",
        "aliases": names[1:],
        "many": {"+": "+", "*": "+", "?": "?"}.get(str(action.nargs), "append" if _appends(action) else ""),
        "choices": [_plain(choice) for choice in action.choices or () if choice is not None],
        "default": None if action.default == argparse.SUPPRESS else _plain(action.default),
        "group": group,
    }
    return {name: value for name, value in fields.items() if value is not None and (value or name == "default")}


def _appends(action: argparse.Action) -> bool:
    return type(action).__name__ == "_AppendAction"


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "bool" if type(action).__name__ == "BooleanOptionalAction" else "switch"
    function: Any = action.type
    while getattr(function, "__closure__", None) and function.__name__ in ("_optional_type", "_parse_type"):
        function = function.__closure__[0].cell_contents
    return _KINDS.get(getattr(function, "__name__", ""), "text")


def _environment() -> dict[str, Any]:
    """Variables of vLLM and what they are without being set. Left out: paths, addresses, names made up on each call."""
    found = {}
    for name, value in import_module("vllm.envs").environment_variables.items():
        try:
            default, again = _plain(value()), _plain(value())
        except Exception:  # some look for hardware, each in its own way; then there is no default
            continue
        is_place = isinstance(default, str) and (default[:1] in "/~" or "://" in default)
        if not is_place and default == again and not isinstance(default, list | dict):
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


if __name__ == "__main__":
    json.dump(table(), sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")
