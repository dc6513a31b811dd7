"""The parts of the simulated engine that are values: command line, schedule, limits of a rank, titles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkd.demo.engine import cli
from sparkd.demo.engine.faults import Faults
from sparkd.demo.engine.options import Options, from_environment
from sparkd.demo.engine.schedule import Request, Schedule
from sparkd.demo.engine.worker import overflow

REAL = (
    "some/model --served-model-name tiny other --host 0.0.0.0 --port 8000 --max-model-len 32k --enforce-eager -tp 2 "
    "--max_num_seqs=4 --nnodes 2 --master-addr 10.77.0.11 --master-port 29501 --node-rank 1 --headless -cc.mode=none "
    "--gpu-memory-utilization 0.1 --no-enable-prefix-caching --kv-cache-dtype fp8 --compilation-config.level 3 -O3 "
    "--enable-expert-parallel --load-format fastsafetensors --trust-remote-code --enable-auto-tool-choice"
)


def test_a_command_line_of_a_real_deployment_is_understood() -> None:
    options = cli.parse([*REAL.split(), "-sc", json.dumps({"method": "mtp", "num_speculative_tokens": 3})])
    assert options.model == "some/model"
    assert options.names == ("tiny", "other")
    assert (options.max_model_len, options.max_num_seqs) == (32000, 4)
    assert (options.rank, options.nnodes, options.master, options.headless) == (1, 2, "10.77.0.11:29501", True)
    assert options.draft_tokens == 3
    assert options.worker_title == "VLLM::Worker_TP1_EP1"


@pytest.mark.parametrize(
    ("tensor", "pipeline", "rank", "title"),
    [
        (2, 1, 1, "VLLM::Worker_TP1"),
        (1, 2, 1, "VLLM::Worker_PP1"),
        (2, 2, 3, "VLLM::Worker_PP1_TP1"),
        (1, 1, 0, "VLLM::Worker"),
    ],
)
def test_titles(tensor: int, pipeline: int, rank: int, title: str) -> None:
    options = Options("m", ("m",), tensor_parallel=tensor, pipeline_parallel=pipeline, rank=rank)
    assert options.worker_title == title


def test_context_length_comes_from_the_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    assert cli.parse([str(tmp_path)]).max_model_len == 2048
    assert cli.parse([str(tmp_path), "--max-model-len", "2K"]).max_model_len == 2048
    assert cli.parse(["some/model"]).max_model_len == 4096


def test_environment() -> None:
    sim = from_environment({"SPARKD_SIM_RATE": "5", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "7"})
    assert (sim.rate, sim.rpc_timeout_s, sim.start_s, sim.stop_s, sim.shm_dir) == (5.0, 7.0, 3.0, 9.0, "/dev/shm")


def test_schedule_runs_up_to_the_limit_in_order() -> None:
    schedule = Schedule(limit=2, capacity=100)
    for name in "abc":
        schedule.add(Request(name, prompt=10, target=2, reason="length"))
    assert schedule.plan() == {"new": [10, 10], "rows": [10, 10], "more": True}
    first = schedule.finish()
    assert first["outputs"] == [("a", 1, None), ("b", 1, None)]
    assert (first["running"], first["waiting"], first["prompt"], first["kv"]) == (2, 1, 20, 0.22)
    schedule.abort("b")
    assert schedule.plan() == {"new": [10], "rows": [11, 10], "more": True}
    assert schedule.finish()["outputs"] == [("a", 1, "length"), ("c", 1, None)]
    assert schedule.plan()["more"] is False
    assert schedule.finish()["outputs"] == [("c", 1, "length")]
    assert schedule.idle


def test_speculation_yields_several_tokens_a_step() -> None:
    schedule = Schedule(limit=1, capacity=100, draft_tokens=3)
    schedule.add(Request("a", prompt=1, target=4, reason="stop"))
    schedule.plan()
    assert schedule.finish()["outputs"] == [("a", 3, None)]
    schedule.plan()
    last = schedule.finish()
    assert last["outputs"] == [("a", 1, "stop")]
    assert last["drafts"] == [1, 3, 0]


@pytest.mark.parametrize(
    ("rows", "new", "error"),
    [
        ([20], [20], None),
        ([900], [20], None),  # one long row runs into the next row's place: wrong, but no error (evidence 12a)
        ([513, 513, 513, 513], [], "IndexError: index out of range in self"),
        ([600], [600], "ValueError: could not broadcast input array from shape (600,) into shape (512,)"),
        ([1, 1, 1, 1, 1], [], "AssertionError"),
    ],
)
def test_a_smaller_rank_overflows_as_the_real_one(rows: list[int], new: list[int], error: str | None) -> None:
    failure = overflow({"rows": rows, "new": new}, max_num_seqs=4, max_model_len=512)
    assert (failure[1] if failure else None) == error


def test_faults_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    faults = Faults(str(path), rank=1)
    assert faults.now() == {}
    path.write_text('{"freeze": true')
    assert faults.now() == {}, "half written"
    path.write_text('{"freeze": true, "rank": 1}')
    assert faults.now()["freeze"] is True
    path.write_text('{"freeze": true, "rank": 0}')
    assert faults.now() == {}
    path.unlink()
    assert faults.now() == {}
    assert Faults('{"hang_requests": true}', rank=0).now() == {"hang_requests": True}
