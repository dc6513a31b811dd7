"""Turns vLLM's command line into Options, with vLLM's own error texts and exit statuses, and starts the rank."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from . import flags
from .options import VERSION, Options, from_environment

VLLM_USAGE = """usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}
            ...
"""
SUFFIXES = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
DOTTED = re.compile(r"^--?[a-zA-Z-]+\.[\w.+-]+(=.*)?$")


class Parser(argparse.ArgumentParser):
    """argparse with vLLM's two-line usage error; the exit status is 2 as everywhere in argparse."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"usage: vllm serve [model_tag] [options]\nvllm serve: error: {message}\n")
        raise SystemExit(2)


def count(text: str) -> int:
    """Reads `4096`, `32k` (1000s) or `32K` (1024s)."""
    if text[-1:] in SUFFIXES:
        return int(float(text[:-1]) * SUFFIXES[text[-1]])
    return int(text)


def number_or_text(text: str) -> int | float | str:
    """Reads a value whose type the tables do not say: vLLM prints 0.9 as the number that its parser made of it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def json_value(text: str) -> Any:
    """Reads a value vLLM hands to json.loads."""
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to {json.loads!r}.") from None


def config_value(name: str, text: str) -> Any:
    """Reads a value vLLM validates as the configuration class `name`."""
    try:
        return json.loads(text)
    except ValueError:
        unquoted = text.startswith("{") and not text.startswith('{"')
        why = "key must be a string at line 1 column 2" if unquoted else "expected value at line 1 column 1"
        raise argparse.ArgumentTypeError(
            f"1 validation error for {name}\n"
            f"  Invalid JSON: {why} [type=json_invalid, input_value={text!r}, input_type=str]\n"
            "    For further information visit https://errors.pydantic.dev/2.14/v/json_invalid"
        ) from None


def parser() -> Parser:
    """Builds the parser of `vllm serve` from the tables in flags.py."""
    built = Parser(prog="vllm serve", allow_abbrev=False, add_help=False)
    built.add_argument("model_tag", nargs="?")

    def names(flag: str) -> list[str]:
        return ["--" + flag] + ([flags.SHORT[flag]] if flag in flags.SHORT else [])

    counts = {"max-model-len", "max-num-seqs", "max-num-batched-tokens"}
    numbers = {"port", "nnodes", "node-rank", "master-port", "tensor-parallel-size", "pipeline-parallel-size"}
    for flag in flags.VALUES:
        kind: Any = count if flag in counts else int if flag in numbers else number_or_text
        built.add_argument(*names(flag), type=kind, choices=flags.DTYPES if flag == "dtype" else None)
    for flag in flags.LISTS:
        built.add_argument(*names(flag), nargs="+")
    for flag in flags.SWITCHES:
        built.add_argument(*names(flag), action=argparse.BooleanOptionalAction)
    for flag, name in flags.CONFIG_CLASSES.items():
        built.add_argument(*names(flag), type=partial(config_value, name))
    for flag in flags.JSON_VALUES:
        built.add_argument(*names(flag), type=json_value)
    return built


def words(argv: list[str]) -> list[str]:
    """Brings the spellings vLLM also takes into one form: `--a_b`, and `--config.key value` (taken and ignored)."""
    kept: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif DOTTED.match(word):
            skip = "=" not in word
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            kept.append(name.replace("_", "-") + equals + value)
        else:
            kept.append(word)
    return kept


def parse(argv: list[str]) -> Options:
    """Reads what follows `vllm serve`; raises SystemExit(2) after vLLM's message on a usage error."""
    known, unknown = parser().parse_known_args(words(argv))
    if unknown:
        sys.stderr.write(f"{VLLM_USAGE}vllm: error: unrecognized arguments: {' '.join(unknown)}\n")
        raise SystemExit(2)
    given = {key: value for key, value in vars(known).items() if value is not None}
    model = str(given.get("model_tag") or given.get("model") or "Qwen/Qwen3-0.6B")
    speculative = given.get("speculative_config") or {}
    return Options(
        model=model,
        names=tuple(given.get("served_model_name") or [model]),
        host=given.get("host", ""),
        port=given.get("port", 8000),
        tensor_parallel=given.get("tensor_parallel_size", 1),
        pipeline_parallel=given.get("pipeline_parallel_size", 1),
        expert_parallel=bool(given.get("enable_expert_parallel")),
        nnodes=given.get("nnodes", 1),
        rank=given.get("node_rank", 0),
        master_addr=given.get("master_addr", "127.0.0.1"),
        master_port=given.get("master_port", 29501),
        headless=bool(given.get("headless")),
        max_model_len=context_length(model, given.get("max_model_len", -1)),
        max_num_seqs=given.get("max_num_seqs", 256),
        draft_tokens=int(speculative.get("num_speculative_tokens", 0)),
        reasoning="reasoning_parser" in given,
        api_keys=tuple(given.get("api_key") or filter(None, [os.environ.get("VLLM_API_KEY")])),
        access_log=not given.get("disable_uvicorn_access_log"),
        shutdown_timeout_s=float(given.get("shutdown_timeout", 0)),
        rendezvous_timeout_s=float(given.get("distributed_timeout_seconds", 1800)),
        given=given,
    )


def context_length(model: str, asked: int) -> int:
    """The context length asked for, else the model's own, else 4096 tokens."""
    if asked > 0:
        return asked
    try:
        config = json.loads(Path(model, "config.json").read_text())
    except (OSError, ValueError):
        return 4096  # a model that is not on this disk: the simulation has no other source
    return int(config.get("max_position_embeddings", 4096))


def main(argv: list[str]) -> int:
    """Runs `vllm ARGV`; returns the exit status."""
    if argv[:1] == ["--version"]:
        sys.stdout.write(VERSION + "\n")
        return 0
    if argv[:1] != ["serve"]:
        sys.stderr.write(f"{VLLM_USAGE}vllm: error: the simulated engine knows only `vllm serve`\n")
        return 2
    options = parse(argv[1:])
    if options.headless:
        from .headless import Headless

        return Headless(options, from_environment()).run()
    from .head import Head

    return Head(options, from_environment()).run()
