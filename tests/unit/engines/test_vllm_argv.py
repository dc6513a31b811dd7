"""Deployment files -> the command lines that people ran by hand."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkd import settings
from sparkd.engines import ENGINES, base_url
from sparkd.engines.args import canonical, words
from sparkd.model.config import Deployment, Node

VLLM = ENGINES["vllm"]
SHIPPED = Path(__file__).parents[3] / "config"
NODES = {
    "a": Node(name="a", address="local", data_address="10.0.0.1"),
    "b": Node(name="b", address="192.168.1.12", data_address="10.0.0.2"),
}

REPORT = r"""
vllm serve /models/DeepSeek-V4-Flash \
--served-model-name deepseek-v4-flash \
--host 0.0.0.0 --port 8000 \
--trust-remote-code \
--tensor-parallel-size 2 --pipeline-parallel-size 1 \
--kv-cache-dtype fp8 --block-size 256 \
--enable-prefix-caching --enable-chunked-prefill \
--max-model-len 200000 --max-num-seqs 4 \
--max-num-batched-tokens 16384 \
--gpu-memory-utilization 0.90 \
--disable-custom-all-reduce \
--compilation-config '{"cudagraph_mode":"FULL_AND_PIECEWISE","custom_ops":["all"]}' \
--speculative-config '{"method":"deepseek_mtp","num_speculative_tokens":2}' \
--tokenizer-mode deepseek_v4 --tool-call-parser deepseek_v4 \
--enable-auto-tool-choice --reasoning-parser deepseek_v4 \
--default-chat-template-kwargs '{"thinking":true}' \
--load-format safetensors \
--nnodes 2 --node-rank 0 \
--master-addr 10.0.0.1 --master-port 29501
"""
"""The head script of the first field report, as it was."""

DEVSTRAL = """
vllm serve /models/devstral-small-2-24b --port 8000 --host 0.0.0.0
    --gpu-memory-utilization 0.85 --max-model-len 65536 --enforce-eager --trust-remote-code
"""
"""The working command of the fourth."""


def meaning(argv: tuple[str, ...] | list[str]) -> tuple[list[str], dict[str, Any]]:
    """(words before the first flag, flag -> values), JSON as what it says."""
    leading: list[str] = []
    flags: dict[str, list[Any]] = {}
    values = leading
    for word in argv:
        if word.startswith("--"):
            values = flags.setdefault(word, [])
        else:
            values.append(json.loads(word) if word.startswith("{") else word)
    return leading, flags


def shipped(name: str, profile: str) -> tuple[Deployment, dict[str, Node]]:
    config = settings.load(SHIPPED, {name: profile} if profile else {})
    return next(one for one in config.deployments if one.name == name), dict(config.cluster.nodes)


def test_the_first_report() -> None:
    deployment, nodes = shipped("ds4-flash", "latency")
    head, worker = (VLLM.argv(deployment, rank, nodes) for rank in (0, 1))
    assert meaning(head) == meaning(shlex.split(REPORT.replace("\\\n", " ")))
    assert head[:4] == ("vllm", "serve", "/models/DeepSeek-V4-Flash", "--served-model-name")
    expected = [*head, "--headless"]
    expected[expected.index("--node-rank") + 1] = "1"
    assert list(worker) == expected


@pytest.mark.parametrize(
    ("profile", "changed"),
    [
        ("throughput", {"--max-num-seqs": "16", "--max-model-len": "65536", "--max-num-batched-tokens": "8192"}),
        ("balanced", {"--max-num-seqs": "8", "--max-model-len": "131072", "--max-num-batched-tokens": "16384"}),
    ],
)
def test_the_first_reports_other_profiles(profile: str, changed: dict[str, str]) -> None:
    deployment, nodes = shipped("ds4-flash", profile)
    leading, flags = meaning(shlex.split(REPORT.replace("\\\n", " ")))
    flags |= {"--enable-expert-parallel": [], **{flag: [value] for flag, value in changed.items()}}
    assert meaning(VLLM.argv(deployment, 0, nodes)) == (leading, flags)


def test_the_fourth_report() -> None:
    deployment, nodes = shipped("devstral", "")
    assert meaning(VLLM.argv(deployment, 0, nodes)) == meaning(shlex.split(DEVSTRAL))


def make(**changes: Any) -> Deployment:
    base = Deployment(
        name="d", engine="vllm", nodes=("a", "b"), model="/m", image="i", args={"tensor-parallel-size": 2}
    )
    return replace(base, **changes)


def test_the_command_replaces_the_leading_words() -> None:
    argv = VLLM.argv(make(command=("/lab/vllm/bin/vllm", "serve")), 0, NODES)
    assert argv[:3] == ("/lab/vllm/bin/vllm", "serve", "/m")


def test_one_node_gets_nothing_of_several() -> None:
    alone = make(nodes=("b",), args={}, port=8100)
    assert VLLM.argv(alone, 0, NODES) == ("vllm", "serve", "/m", "--host", "0.0.0.0", "--port", "8100")
    assert VLLM.env(alone, 0, NODES) == {}
    assert [(use.what, use.port) for use in VLLM.ports(alone)] == [("api", 8100)]


def test_ranks_of_several_nodes_meet_on_the_fabric() -> None:
    assert VLLM.env(make(), 1, NODES) == {"VLLM_HOST_IP": "10.0.0.2"}
    assert [(use.rank, use.what, use.port) for use in VLLM.ports(make())] == [(0, "api", 8000), (0, "master", 29501)]


@pytest.mark.parametrize(
    ("nodes", "args", "more"),
    [
        (("a", "b"), {"data-parallel-size": 2}, [("data-parallel RPC", 29550)]),
        (("a", "b"), {"data_parallel_size": "2", "data_parallel_rpc_port": "13345"}, [("data-parallel RPC", 13345)]),
        (("a",), {"data-parallel-size": 2, "data-parallel-rpc-port": 13345}, []),
        (("a", "b"), {"tensor-parallel-size": 2, "data-parallel-size": 1, "data-parallel-rpc-port": 13345}, []),
        (("a", "b"), {"grpc-port": 50051}, [("gRPC", 50051)]),
        (("a", "b"), {"grpc-port": 70000, "data-parallel-size": "many"}, []),
        (("a", "b"), {"grpc-port": "9" * 5000}, []),
    ],
)
def test_ports_that_flags_open(nodes: tuple[str, ...], args: dict[str, Any], more: list[tuple[str, int]]) -> None:
    found = [(use.what, use.port) for use in VLLM.ports(make(nodes=nodes, args=args)) if use.rank == 0]
    assert [one for one in found if one[0] not in ("api", "master")] == more


def test_where_the_api_is_reached() -> None:
    nodes = {**NODES, "six": Node(name="six", address="fd00::2")}
    assert base_url(make(), nodes) == "http://127.0.0.1:8000"
    assert base_url(make(nodes=("b", "a"), port=1), nodes) == "http://192.168.1.12:1"
    assert base_url(make(nodes=("six",)), nodes) == "http://[fd00::2]:8000"


@pytest.mark.parametrize(
    ("args", "size"),
    [
        ({}, 1),
        ({"tensor-parallel-size": 2, "pipeline-parallel-size": "3"}, 6),
        ({"data-parallel-size": 2, "tensor-parallel-size": None}, 2),
        ({"tensor-parallel-size": "two"}, None),
        ({"tensor-parallel-size": -2}, None),
        ({"tensor-parallel-size": [2]}, None),
    ],
)
def test_world_size(args: dict[str, Any], size: int | None) -> None:
    assert VLLM.world_size(args) == size


# ---------------------------------------------------------------------------------------------------------------- args


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"a_b": True}, ["--a-b"]),
        ({"a-b": False}, ["--no-a-b"]),
        ({"a": None}, []),
        ({"a": "0.90", "b": 2, "c": 1.5}, ["--a", "0.90", "--b", "2", "--c", "1.5"]),
        ({"a": ["x", "y", 3]}, ["--a", "x", "y", "3"]),
        ({"a": [{"k": 1}]}, ["--a", '{"k":1}']),
        ({"a": {"x_y": True, "z": None, "ü": [1, "all"]}}, ["--a", '{"x_y":true,"z":null,"ü":[1,"all"]}']),
        ({"a": ""}, ["--a", ""]),
        ({"a": "-x"}, ["--a=-x"]),
        ({"a": -1, "b": "-0.5"}, ["--a", "-1", "--b", "-0.5"]),
        ({"hf_overrides.rope_theta": 1}, ["--hf-overrides.rope_theta", "1"]),
        ({"a": 'it\'s $HOME `x` "y"'}, ["--a", 'it\'s $HOME `x` "y"']),
    ],
)
def test_one_argument(args: dict[str, Any], expected: list[str]) -> None:
    assert list(words(args)) == expected


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}([_-][a-z0-9]{1,5}){0,3}", fullmatch=True)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)
PLAIN = st.one_of(st.integers(0), st.text())
ARGS = st.dictionaries(NAMES, st.one_of(st.none(), st.booleans(), PLAIN, st.dictionaries(st.text(), JSON)), max_size=8)


@given(ARGS)
def test_order_is_kept_and_every_argument_is_there_once(args: dict[str, Any]) -> None:
    expected = [
        f"--no-{canonical(name)}" if value is False else f"--{canonical(name)}"
        for name, value in args.items()
        if value is not None
    ]
    found = list(words(args))
    taken: list[str] = []
    for name, value in args.items():
        mine = list(words({name: value}))
        assert found[: len(mine)] == mine
        found = found[len(mine) :]
        taken += [word.partition("=")[0] for word in mine[:1]]
    assert (taken, found) == (expected, [])


@given(st.dictionaries(st.text(), JSON))
def test_a_mapping_reaches_the_engine_as_the_json_it_is(value: dict[str, Any]) -> None:
    flag, word = words({"x": value})
    assert flag == "--x"
    assert json.loads(word) == value


@given(ARGS)
def test_underscores_and_dashes_are_the_same(args: dict[str, Any]) -> None:
    assert words({name.replace("-", "_"): value for name, value in args.items()}) == words(
        {name.replace("_", "-"): value for name, value in args.items()}
    )
