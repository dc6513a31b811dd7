"""What a parser refuses, by its table: the verdicts are those of vLLM 0.32.0's own parser on the same words.

The names of parsers, and keys of `speculative-config`, it lets through and refuses later (evidence 16).
"""

from __future__ import annotations

from typing import Any

import pytest

from sparkd.engines.args import canonical
from sparkd.engines.flags import Flag
from sparkd.engines.refused_values import EATEN, find, refusals
from sparkd.engines.tables import shipped

TABLE = shipped("vllm")
ACCEPTED: list[tuple[str, Any]] = [
    ("dtype", "auto"),
    ("max-model-len", 1024),
    ("max-model-len", "4k"),
    ("max-model-len", "25.6k"),
    ("max-model-len", "auto"),
    ("max-model-len", "-1"),
    ("enforce-eager", True),
    ("enforce-eager", False),
    ("no-enforce-eager", True),
    ("aggregate-engine-logging", True),
    ("tensor_parallel_size", "2"),
    ("tensor-parallel-siz", 2),
    ("tensor-parallel-size", [2]),
    ("speculative-config", '{"method":"mtp"}'),
    ("speculative-config", {"method": "mtp"}),
    ("speculative-config", "None"),
    ("speculative-config", ""),
    ("compilation-config", {"mode": 3}),
    ("compilation-config.mode", 3),
    ("compilation-config", {"cudagraph_mode": "FULL_DECODE_ONLY"}),
    ("kv-transfer-config", {"kv_connector": "X", "kv_role": "kv_both"}),
    ("eplb-config", '{"window_size": 1k}'),
    ("allowed-origins", '["*"]'),
    ("middleware", ["a"]),
    ("api-key", ["a", "b"]),
    ("hf-overrides", "x"),
    ("hf-overrides", {"a": 1}),
    ("quantization", "nosuch"),
    ("kv-cache-dtype", "fp8"),
    ("max-num-batched-tokens", "8k"),
    ("limit-mm-per-prompt", {"image": 1}),
    ("limit-mm-per-prompt.image", 1),
    ("structured-outputs-config", {"backend": "xgrammar"}),
    ("cudagraph-capture-sizes", [1, 2]),
    ("reasoning-parser", "qwen3"),
    ("hf-token", True),
    ("trust-remote-code", None),
]
REFUSED: list[tuple[str, Any, str]] = [
    ("dtype", "fp8", "it is one of auto, bfloat16"),
    ("max-model-len", "25.6K", "4k or 4K"),
    ("max-model-len", "x", "whole number"),
    ("enforce-eager", "true", "takes no value"),
    ("enforce-eager", 1, "takes no value"),
    ("aggregate-engine-logging", False, "there is no --no-aggregate"),
    ("tensor-parallel-size", "2.0", "a whole number"),
    ("tensor-parallel-size", True, "wants a value"),
    ("tensor-parallel-size", False, "there is no --no-tensor"),
    ("tensor-parallel-size", [1, 2], "takes one value"),
    ("gpu-memory-utilization", "0.9x", "a number"),
    ("speculative-config", "{method: mtp}", EATEN),
    ("speculative-config", {"metod": "mtp"}, "no key metod (did you mean method?)"),
    ("speculative-config", {"method": "nosuch"}, "method nosuch is none of"),
    ("compilation-config", {"mood": 3}, "no key mood (did you mean mode?)"),
    ("compilation-config.mood", 3, "no key mood"),
    ("compilation-config", "3", "object"),
    ("kv-transfer-config", {"kv_connector": "X", "kv_role": "both"}, "kv_role both is none of"),
    ("eplb-config", {"communicator": "nope"}, "communicator nope"),
    ("allowed-origins", ["*"], EATEN),
    ("middleware", ["a", "b"], "takes one value"),
    ("hf-overrides", "{a:1}", EATEN),
    ("kv-cache-dtype", "fp7", "it is one of auto"),
    ("cudagraph-capture-sizes", [1, "x"], "a whole number"),
    ("structured-outputs-config.backend", "nope", "backend nope"),
    ("tool-call-parser", "nosuch", "it is one of"),
    ("reasoning-parser", "qwen33", "did you mean qwen3?"),
]


def said(name: str, value: Any, **more: Any) -> list[str]:
    name = canonical(name)
    flag = find(TABLE, name)
    assert flag is not None, name
    return list(refusals(flag, name, value, {name: value, **more}))


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_what_it_takes(name: str, value: Any) -> None:
    assert said(name, value) == []


@pytest.mark.parametrize(("name", "value", "words"), REFUSED)
def test_what_it_refuses(name: str, value: Any, words: str) -> None:
    found = said(name, value)
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("name", ["no-such", "no-dtype", "swap-space", "tp"])
def test_what_it_does_not_know(name: str) -> None:
    assert find(TABLE, name) is None


def test_a_file_with_more_parsers_may_have_any_name() -> None:
    assert said("tool-call-parser", "nosuch", **{"tool-parser-plugin": "/srv/mine.py"}) == []
    assert said("reasoning-parser", "nosuch", **{"tool-parser-plugin": "/srv/mine.py"}) != []


def test_a_flag_of_which_little_is_known_refuses_little() -> None:
    assert list(refusals(Flag(name="odd", kind="new-kind"), "odd", {"a": 1}, {})) == []
    assert list(refusals(Flag(name="odd", kind="json"), "odd", {"any": "key"}, {})) == []
