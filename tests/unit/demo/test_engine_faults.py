"""Faults made on purpose: the control file, broken model files, command lines vLLM refuses (real processes)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_ranks import FAST, VLLM, Pair, wait_for


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def shard(path: Path, cut: int = 0) -> None:
    """A safetensors file with one tensor of 64 bytes, `cut` bytes short."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * (64 - cut))


def model(folder: Path, present: tuple[str, ...], cut: int = 0) -> str:
    folder.mkdir()
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    for key in present:
        shard(folder / names[key], cut)
    return str(folder)


def test_hanging_requests_look_like_an_idle_server(pair: Pair) -> None:
    head, _ = pair.serving()
    pair.fault(hang_requests=True)
    assert pair.ask("/v1/completions", b'{"prompt": "x"}', seconds=0.5)[0] == 0, "no answer in half a second"
    assert pair.get("/health")[0] == 200
    assert pair.metric("vllm:num_requests_running") == 0
    assert pair.metric("vllm:generation_tokens_total") == 0
    pair.fault()
    assert pair.post()[0] == 200
    assert "ERROR" not in head.log


def test_freeze_of_one_rank_ends_with_the_key(pair: Pair) -> None:
    pair.serving()
    pair.fault(freeze=True, rank=1)
    assert pair.ask("/v1/completions", b'{"prompt": "x"}', seconds=0.5)[0] == 0, "no answer in half a second"
    pair.fault()
    assert pair.post()[0] == 200


def test_error_chunk_under_status_200(pair: Pair) -> None:
    pair.serving()
    pair.fault(error_chunk=True)
    with pair.stream() as lines:
        *_, error, done = lines
    assert "error" in json.loads(error)
    assert done == "[DONE]"
    assert pair.post()[0] == 500
    pair.fault()
    assert pair.post()[0] == 200, "the engine lives on"


@pytest.mark.parametrize(("how", "status"), [("exit0", 0), ("exit1", 1), ("exit127", 127), ("oom", -9)])
def test_death_by_control_file(pair: Pair, how: str, status: int) -> None:
    head = pair.start(0)
    head.pid("VLLM::Worker")
    pair.fault(die=how)
    assert head.status() == status
    wait_for(lambda: not head.pids(), "the children gone")


def test_never_ready(pair: Pair) -> None:
    pair.fault(no_ready=True)
    head, _ = pair.start(0), pair.start(1)
    head.says("init engine (profile, create kv cache, warmup model) took")
    assert pair.get("/health")[0] == 0
    pair.fault()
    head.says("Application startup complete.")


@pytest.mark.parametrize("stage", ["imports", "config", "core", "group", "weights", "ready"])
def test_death_at_a_stage(pair: Pair, stage: str) -> None:
    pair.fault(die_at_stage=stage, code=3, rank=0)
    head, peer = pair.start(0), pair.start(1)
    assert head.status() == 3
    head.says(f"simulated failure at stage {stage}")
    assert not head.pids()
    if stage == "weights":
        assert peer.status() == 1, "a peer inside the same collective fails too (evidence 13c)"


def test_missing_shard_on_the_peer(pair: Pair, tmp_path: Path) -> None:
    head = pair.start(0)
    peer = pair.start(1, model=model(tmp_path / "m", ("a",)))
    assert peer.status() == 1
    peer.says("FileNotFoundError: Weight files referenced in index but missing: {")
    assert head.status() == 1
    head.says(
        "gloo/transport/tcp/pair.cc"
    )  # closed or reset: the head blames the network, the cause is in the peer's log
    assert "[127.0.0.2]" in head.log


def test_truncated_shard_on_the_head(pair: Pair, tmp_path: Path) -> None:
    head = pair.start(0, model=model(tmp_path / "m", ("a", "b"), cut=8))
    peer = pair.start(1)
    assert head.status() == 1
    head.says("SafetensorError: Error while deserializing header")
    assert peer.status() == 1
    assert pair.shared() == []


def test_wrong_interface_on_the_peer(pair: Pair) -> None:
    head = pair.start(0)
    head.pid("VLLM::Worker")
    pair.environment["GLOO_SOCKET_IFNAME"] = "eth99"
    peer = pair.start(1)
    assert peer.status() == 1
    peer.says("Unable to find address for: eth99")
    assert head.process.poll() is None
    assert "VLLM::Worker" in head.pids()


def vllm(*argv: str) -> tuple[int, str]:
    """Runs a command line that must end by itself: exit status and output."""
    environment = {**os.environ, **FAST, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(VLLM), *argv], capture_output=True, text=True, check=False, timeout=20, env=environment
    )
    return done.returncode, done.stdout + done.stderr


REFUSED = [
    (2, "vllm: error: unrecognized arguments: --no-such-flag", ["--no-such-flag"]),
    (2, "Invalid JSON: key must be a string at line 1 column 2", ["--compilation-config", "{cudagraph_mode:FULL}"]),
    (2, "Value {method:ngram} cannot be converted to <function loads at", ["-sc", "{method:ngram}"]),
    (2, "argument --dtype: invalid choice: 'fp8' (choose from", ["--dtype", "fp8"]),
    (1, "KeyError: 'invalid tool call parser: nosuch", ["--enable-auto-tool-choice", "--tool-call-parser", "nosuch"]),
    (1, "KeyError: \"Reasoning parser 'nosuch' not found.", ["--reasoning-parser", "nosuch"]),
    (1, "HFValidationError: Repo id must be in the form", ["--port", "0"]),
]


@pytest.mark.parametrize(("status", "message", "flags"), REFUSED)
def test_refused_command_lines(status: int, message: str, flags: list[str]) -> None:
    code, output = vllm("serve", "/no/such/model", *flags)
    assert code == status
    assert message in output


def test_missing_model_on_a_peer() -> None:
    code, output = vllm("serve", "/no/such/model", "--headless", "--node-rank", "1", "--nnodes", "2")
    assert code == 1
    assert output.rstrip().endswith("'/no/such/model'. Use `repo_type` argument if needed.")


def test_hub_name_offline() -> None:
    code, output = vllm("serve", "no/such", "--port", "0")
    assert code == 1
    assert "LocalEntryNotFoundError" in output


def test_the_folder_runs_wherever_it_is_copied(tmp_path: Path) -> None:
    shutil.copytree(VLLM.parent, tmp_path / "fast", ignore=shutil.ignore_patterns("__pycache__"))
    for command in ([str(tmp_path / "fast" / "vllm")], [str(tmp_path / "fast")]):
        run = [sys.executable, "-I", *command, "--version"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=20)
        assert done.stdout == "0.32.0\n", done.stderr
