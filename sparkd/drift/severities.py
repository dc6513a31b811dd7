"""How bad a difference is, why, and who measured it: the rows of severities.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from sparkd.drift.difference import Severity
from sparkd.drift.values import NotJson, same
from sparkd.engines import like

_FILE = "severities.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`change`: any, added, dropped, raised, lowered, or `=VALUE` for what the live side says.

    `name` is a pattern of the finding's name. `source` ends the sentence in brackets.
    """

    kind: str
    name: str
    severity: Severity
    why: str
    source: str
    change: str = "any"

    @property
    def sentence(self) -> str:
        return f"{self.why} ({self.source})"


@cache
def rules(engine: str) -> tuple[Rule, ...]:
    """The rows of the engine's own variables and flags, and those of severities.toml, which ships beside this file."""
    both = (like(engine).severities_file, files("sparkd.drift") / _FILE)
    texts = [file.read_text("utf-8") for file in both if file is not None]
    rows = [row for text in texts for row in tomllib.loads(text)["rule"]]
    return tuple(Rule(**{**row, "severity": Severity(row["severity"])}) for row in rows)


MUST_AGREE = {
    "max-model-len": "ranks that disagree serve until a long request: `IndexError` in the worker's log, silence behind "
    "a green /health (evidence 12a)",
    "max-num-seqs": "ranks that disagree serve until one request too many: `AssertionError` in the worker's log, silence "
    "behind a green /health (evidence 12c)",
}
"""Flags of which it was seen what happens when ranks differ."""

DISAGREE = "ranks with different settings compute different things and stop in the middle of a collective (evidence 12; sglang#33289)"
SET_APART = "the variable is set on one rank alone, or differently"
CREATED_APART = "the containers of one group are created alike"
DIFFERENT_IMAGES = "ranks of different images: one computes, the other waits (eugr#24; gpustack#5109)"

NODES_APART = "nodes of one group are alike where it worked (eugr#24)"

_PER_NODE = (
    "HOST_IP",
    "HOSTNAME",
    "*_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "*_NET_DEVICES",
    "MN_IF_NAME",
    "CUDA_VISIBLE_DEVICES",
    "SPARKD_*",
)
"""Variables that name something of a node, besides the engine's own: interface names differ between Sparks (vllm PR #40991)."""

_OF_ENGINE = (
    "NCCL_*",
    "GLOO_*",
    "TORCH*",
    "PYTORCH_*",
    "CUDA_*",
    "OMP_*",
    "HF_*",
    "TRANSFORMERS_*",
    "TRITON_*",
    "FLASHINFER_*",
    "DG_*",
    "TILELANG_*",
    "UCX_*",
    "RAY_*",
    "SGLANG_*",
    "PYTHON*",
    "LD_PRELOAD",
    "MN_*",
    "OMPI_*",
)
"""Variables that an engine's libraries or other engines read; others in a running container are mostly the image's own."""

SAME_AS_ABSENT = {"host": ("0.0.0.0", "::")}
"""Values that do what leaving the flag out does, though the parser's default is nothing."""


def of_node(name: str, engine: str) -> bool:
    """Does a variable name something of a node?"""
    return name == like(engine).variables.address or _matches(name, _PER_NODE)


def of_engine(name: str, engine: str) -> bool:
    """Does an engine read this variable, or one of its libraries?"""
    own = like(engine).variables.own
    return (own != "" and name.startswith(own)) or _matches(name, _OF_ENGINE)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def rule_for(engine: str, kind: str, name: str, known: Any, live: Any) -> Rule | None:
    return next(
        (
            rule
            for rule in rules(engine)
            if rule.kind == kind and fnmatchcase(name, rule.name) and _fits(rule.change, known, live)
        ),
        None,
    )


def _fits(change: str, known: Any, live: Any) -> bool:
    if change == "any":
        return True
    if change == "added":
        return _off(known) and not _off(live)
    if change == "dropped":
        return _off(live) and not _off(known)
    if change.startswith("="):
        return str(live) == change[1:]
    numbers = isinstance(known, int | float) and isinstance(live, int | float) and not isinstance(live, bool)
    return numbers and (live > known if change == "raised" else live < known)


def _off(value: Any) -> bool:
    return value is None or same(value, False)


def lost_json(engine: str, name: str, value: NotJson) -> tuple[Severity, str]:
    """What a value that should be JSON and is not does to the engine."""
    what = (
        f"the quotes of its JSON were eaten by a shell on the way: the engine gets `{value.text}`"
        if value.lost_quotes
        else f"its value is no JSON: `{value.text}`"
    )
    return Severity.BREAKS, f"{what}; {like(engine).lost_json.format(name)} (evidence 11; first field report)"
