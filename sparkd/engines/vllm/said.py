"""vLLM's start-up log and its own pages -> what it says it runs with, by the names of its flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparkd.model.printed import Unread, scalar, shown, whole

PAGES = ("/v1/models", "/version", "/server_info?config_format=json")
"""The last one answers with VLLM_SERVER_DEV_MODE=1 alone."""

_ARGS = re.compile(r"non-default args: (\{.*)")
_LENGTH = re.compile(r"Using max model len ([0-9]+)")
_VERSION = re.compile(r"Launching vLLM \(v(\S+)\) headless")
_ENTRY = re.compile(r"\s*'(\w{1,100})': ?(.*)", re.DOTALL | re.ASCII)
LONGEST_VALUE = 1 << 13
"""Characters of one value that Python is asked to read."""
LONGEST_VERSION = 100
_OPEN, _CLOSE = "([{<", ")]}>"

_NOT_FLAGS = ("model_tag", "model", "config", "subparser", "dispatch_function")
"""Entries of the line that repeat the positional word, or say nothing of what runs."""

_CONFIG = {
    "max-model-len": ("model_config", "max_model_len"),
    "max-num-seqs": ("scheduler_config", "max_num_seqs"),
    "max-num-batched-tokens": ("scheduler_config", "max_num_batched_tokens"),
    "gpu-memory-utilization": ("cache_config", "gpu_memory_utilization"),
    "kv-cache-dtype": ("cache_config", "cache_dtype"),
    "dtype": ("model_config", "dtype"),
    "quantization": ("model_config", "quantization"),
    "enforce-eager": ("model_config", "enforce_eager"),
    "tensor-parallel-size": ("parallel_config", "tensor_parallel_size"),
    "pipeline-parallel-size": ("parallel_config", "pipeline_parallel_size"),
    "enable-expert-parallel": ("parallel_config", "enable_expert_parallel"),
}
"""Flag -> where /server_info has what became of it."""


def arguments(lines: Iterable[str]) -> dict[str, Any] | None:
    """What its parser found that is no default, as it logs it; None where no line says it. Only the rank that serves the
    API prints the line. Values that are objects are left out: of these it shows every field, said or not."""
    found = next((match[1] for line in shown(lines) if (match := _ARGS.search(line))), None)
    if found is None:
        return None
    return {name.replace("_", "-"): value for name, value in _entries(found) if name not in _NOT_FLAGS}


def in_use(lines: Iterable[str]) -> dict[str, Any]:
    """What else of the log tells what became of the flags; headless ranks say these too."""
    found: dict[str, Any] = {}
    for line in shown(lines):
        if match := _LENGTH.search(line):
            length = whole(match[1])
            found["max-model-len"] = Unread(f"a number of {len(match[1])} digits") if length is None else length
        if match := _VERSION.search(line):
            found["version"] = _version(match[1])
    return found


def page(path: str, answer: Any) -> dict[str, Any]:
    """The same of one of PAGES; nothing where it has another shape."""
    if not isinstance(answer, Mapping):
        return {}
    if path.startswith("/server_info"):
        return dict(_configured(answer.get("vllm_config")))
    if path == "/version":
        return {"version": _version(answer["version"])} if isinstance(answer.get("version"), str) else {}
    return dict(_served(answer.get("data")))


def _configured(config: Any) -> Iterator[tuple[str, Any]]:
    for name, (section, key) in _CONFIG.items():
        within = config.get(section) if isinstance(config, Mapping) else None
        value = within.get(key) if isinstance(within, Mapping) else None
        if isinstance(value, bool | int | float | str):
            yield name, scalar(value)


def _served(models: Any) -> Iterator[tuple[str, Any]]:
    """The first is the model itself; adapters that were loaded since follow it."""
    first = models[0] if isinstance(models, list) and models else None
    if isinstance(first, Mapping):
        if isinstance(first.get("id"), str):
            yield "served-model-name", scalar(first["id"])
        if isinstance(first.get("max_model_len"), int):
            yield "max-model-len", scalar(first["max_model_len"])


def _version(text: str) -> str | Unread:
    return scalar(text) if len(text) <= LONGEST_VERSION else Unread(f"a version of {len(text)} characters")


def _entries(text: str) -> Iterator[tuple[str, Any]]:
    """The pairs of a Python dict as it prints itself, without those that are objects."""
    for piece in _pieces(text[1:]):
        if (match := _ENTRY.fullmatch(piece)) and (value := _value(match[2].strip())) is not _OBJECT:
            yield match[1], value


_OBJECT = object()
_OF_OBJECTS = re.compile(r"(?!(?:True|False|None)\b)[<{(A-Za-z_]|\[[^'\"]*[<{(A-Za-z_]")
"""`<AttentionBackendEnum.TRITON_ATTN: …>`, `CompilationConfig(…)` and lists of them, which no Python reads back."""


def _value(written: str) -> Any:
    """A plain value or a list of them; Unread for what should be one; _OBJECT."""
    if len(written) > LONGEST_VALUE:
        return _OBJECT if _OF_OBJECTS.match(written) else Unread(f"a value of {len(written)} characters")
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return (
            _OBJECT if _OF_OBJECTS.match(written) else Unread(f"{written[:20]}{'…' * (len(written) > 20)} is no value")
        )
    if not all(one is None or isinstance(one, _PLAIN) for one in (value if isinstance(value, list) else [value])):
        return _OBJECT
    if not isinstance(value, list):
        return scalar(value)
    values = [scalar(one) for one in value]
    return next((one for one in values if isinstance(one, Unread)), values)


_PLAIN = (bool, int, float, str)


def _pieces(text: str) -> Iterator[str]:
    """What stands between the commas of the outermost brackets, up to where these close."""
    begun, depth, quote, escaped = 0, 0, "", False
    for at, char in enumerate(text):
        if quote:
            escaped, quote = (not escaped and char == "\\"), ("" if char == quote and not escaped else quote)
        elif char in "'\"":
            quote = char
        elif depth == 0 and char in ",}":
            yield text[begun:at]
            if char == "}":
                return
            begun = at + 1
        else:
            depth += (char in _OPEN) - (char in _CLOSE)
