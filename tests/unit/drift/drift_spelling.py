"""Settings of a rank, and the many ways to write one: what the tests of the canonical form draw from."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

from sparkd.engines.flags import Flag
from sparkd.engines.tables import shipped

TABLE = shipped("vllm")

NAMES = (
    *("tensor-parallel-size", "max-model-len", "max-num-seqs", "gpu-memory-utilization", "enforce-eager", "block-size"),
    *("enable-prefix-caching", "enable-expert-parallel", "kv-cache-dtype", "max-num-batched-tokens", "quantization"),
    *("compilation-config", "speculative-config", "tool-call-parser", "limit-mm-per-prompt", "trust-remote-code"),
    *("served-model-name", "allowed-origins", "cudagraph-capture-sizes", "optimization-level", "headless"),
)

_WORDS = st.text("abcdefgxyz_0123456789", min_size=1, max_size=8).filter(lambda text: text[0].isalpha())
_NUMBERS = st.integers(1, 200_000)
_KEYS = st.sampled_from(("alpha", "beta", "gamma_x", "delta"))
_LEAVES = st.one_of(_NUMBERS, _WORDS, st.booleans(), st.lists(_WORDS, min_size=1, max_size=3))
_JSON = st.dictionaries(_KEYS, st.one_of(_LEAVES, st.dictionaries(_KEYS, _LEAVES, min_size=1, max_size=2)), min_size=1)


def values(flag: Flag) -> st.SearchStrategy[Any]:
    """A value that the engine's parser would make of a word given to the flag."""
    if flag.kind == "switch":
        return st.just(True)
    if flag.kind == "bool":
        return st.booleans()
    if flag.kind == "json":
        return st.lists(_WORDS, min_size=1, max_size=3) if flag.name.startswith("allowed") else _JSON
    if flag.choices:
        return st.sampled_from(flag.choices)
    one = {
        "int": _NUMBERS,
        "size": _NUMBERS,
        "size-auto": _NUMBERS,
        "float": st.sampled_from((0.7, 0.85, 0.9, 0.925)),
    }.get(flag.kind, _WORDS)
    if flag.name == "optimization-level":
        one = st.integers(0, 3)
    return st.lists(one, min_size=1, max_size=3) if flag.many == "+" else one


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=8))
    return {name: draw(values(TABLE.flags[name])) for name in chosen}


def spell(chosen: dict[str, Any], luck: random.Random) -> list[str]:
    """One way to write all of them, model first or last."""
    groups = [_flag(TABLE.flags[name], value, luck) for name, value in chosen.items()]
    luck.shuffle(groups)
    if chosen and luck.random() < 0.3:  # said before, and said otherwise: the last one counts
        again = luck.choice(list(chosen))
        if not TABLE.flags[again].many and TABLE.flags[again].kind not in ("json", "switch"):
            groups.insert(0, [f"--{again}=1"] if TABLE.flags[again].takes_value else [f"--no-{again}"])
    words = [word for group in groups for word in group]
    return (
        ["/models/X", *words] if luck.random() < 0.5 else ["--model", luck.choice(("/models/X", "/models//X/")), *words]
    )


def _flag(flag: Flag, value: Any, luck: random.Random) -> list[str]:
    name = _name(flag, luck)
    if isinstance(value, bool) and flag.kind in ("bool", "switch"):
        negated = f"--no-{flag.name}"
        return [name if value else luck.choice((negated, negated.replace("-", "_").replace("__no_", "--no-")))]
    if flag.kind == "json":
        return _json(flag, name, value, luck)
    if flag.name == "optimization-level" and luck.random() < 0.5:
        return luck.choice(([f"-O{value}"], [f"-O={value}"], ["-O", str(value)]))
    if isinstance(value, list):
        return [name, *map(str, value)]
    word = _word(value, luck)
    return [f"{name}={word}"] if luck.random() < 0.5 else [name, word]


def _name(flag: Flag, luck: random.Random) -> str:
    ways = [f"--{flag.name}", f"--{flag.name.replace('-', '_')}", *flag.aliases]
    return luck.choice(ways)


def _word(value: Any, luck: random.Random) -> str:
    if isinstance(value, float):
        return luck.choice((str(value), f"{value:.3f}", f"{value}0", str(value).removeprefix("0")))
    if isinstance(value, int):
        return luck.choice((str(value), f"{value:07d}"))
    return str(value)


def _json(flag: Flag, name: str, value: Any, luck: random.Random) -> list[str]:
    if isinstance(value, dict) and luck.random() < 0.4:
        return [word for path, leaf in _leaves(value, ()) for word in _dotted(name, path, leaf, luck)]
    keys = list(value.items()) if isinstance(value, dict) else value
    if isinstance(value, dict):
        luck.shuffle(keys)
        value = dict(keys)
    text = json.dumps(value, indent=luck.choice((None, 2)), separators=luck.choice((None, (",", ":"), (" , ", " : "))))
    return [f"{name}={text}"] if luck.random() < 0.5 else [name, text]


def _dotted(name: str, path: tuple[str, ...], leaf: Any, luck: random.Random) -> list[str]:
    key = f"{name}.{'.'.join(path)}"
    text = json.dumps(leaf)
    return [f"{key}={text}"] if luck.random() < 0.5 else [key, text]


def _leaves(value: dict[str, Any], path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, one in value.items():
        found += _leaves(one, (*path, key)) if isinstance(one, dict) else [((*path, key), one)]
    return found
