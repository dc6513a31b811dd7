"""vLLM's start-up log and its own pages -> what it says it runs with, by the names of its flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

PAGES = ("/v1/models", "/version", "/server_info?config_format=json")
"""The last one answers with VLLM_SERVER_DEV_MODE=1 alone."""

_ARGS = re.compile(r"non-default args: (\{.*)")
_LENGTH = re.compile(r"Using max model len (\d+)")
_VERSION = re.compile(r"Launching vLLM \(v(\S+)\) headless")
_ENTRY = re.compile(r"\s*'(\w+)': ?(.*)", re.DOTALL)
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
    found = next((match[1] for line in lines if (match := _ARGS.search(line))), None)
    if found is None:
        return None
    return {name.replace("_", "-"): value for name, value in _entries(found) if name not in _NOT_FLAGS}


def in_use(lines: Iterable[str]) -> dict[str, Any]:
    """What else of the log tells what became of the flags; headless ranks say these too."""
    found: dict[str, Any] = {}
    for line in lines:
        if match := _LENGTH.search(line):
            found["max-model-len"] = int(match[1])
        if match := _VERSION.search(line):
            found["version"] = match[1]
    return found


def page(path: str, answer: Any) -> dict[str, Any]:
    """The same of one of PAGES; nothing where it has another shape."""
    if not isinstance(answer, Mapping):
        return {}
    if path.startswith("/server_info"):
        return dict(_configured(answer.get("vllm_config")))
    if path == "/version":
        return {"version": answer["version"]} if isinstance(answer.get("version"), str) else {}
    return dict(_served(answer.get("data")))


def _configured(config: Any) -> Iterator[tuple[str, Any]]:
    for name, (section, key) in _CONFIG.items():
        within = config.get(section) if isinstance(config, Mapping) else None
        value = within.get(key) if isinstance(within, Mapping) else None
        if isinstance(value, bool | int | float | str):
            yield name, value


def _served(models: Any) -> Iterator[tuple[str, Any]]:
    """The first is the model itself; adapters that were loaded since follow it."""
    first = models[0] if isinstance(models, list) and models else None
    if isinstance(first, Mapping):
        if isinstance(first.get("id"), str):
            yield "served-model-name", first["id"]
        if isinstance(first.get("max_model_len"), int):
            yield "max-model-len", first["max_model_len"]


def _entries(text: str) -> Iterator[tuple[str, Any]]:
    """The pairs of a Python dict as it prints itself, without those whose values cannot be read back."""
    for piece in _pieces(text[1:]):
        if match := _ENTRY.fullmatch(piece):
            try:
                value = ast.literal_eval(match[2].strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue  # `<AttentionBackendEnum.TRITON_ATTN: …>` and the like
            if _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value))):
                yield match[1], value


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


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
