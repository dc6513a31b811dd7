"""Two ranks of the simulated engine: what they look like when all is well, and how they fail (real processes)."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from engine_ranks import Pair, Rank, alive, title, wait_for
from prometheus_client.parser import text_string_to_metric_families

LEFTOVERS = [("psm", 25165836), ("psm", 167772180), ("sem", 32), ("sem", 32)]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def last_line(rank: Rank) -> str:
    return rank.log.rstrip().rsplit("\n", 1)[-1]


def test_two_ranks_serve(pair: Pair) -> None:
    head, peer = pair.serving("--reasoning-parser", "qwen3", "--speculative-config", '{"num_speculative_tokens": 2}')
    head_pids, peer_pids = head.pids(), peer.pids()
    assert {"VLLM::EngineCore", "VLLM::Worker_TP0"} < set(head_pids)
    assert "VLLM::Worker_TP1" in peer_pids
    assert "vllm serve some/model" in title(head.process.pid)
    worker = Path(f"/proc/{peer_pids['VLLM::Worker_TP1']}")
    assert worker.joinpath("comm").read_text() == "VLLM::Worker_TP\n"
    assert not worker.joinpath("environ").read_bytes().strip(b"\0"), "setproctitle wipes the environment"
    assert b"SPARKD_SIM_RATE" in Path(f"/proc/{head.process.pid}/environ").read_bytes()
    assert pair.shared() == LEFTOVERS

    with pair.stream(max_tokens=12, stream_options={"include_usage": True}) as lines:
        *chunks, usage, done = lines
    assert done == "[DONE]"
    assert json.loads(usage)["usage"]["completion_tokens"] == 12
    assert len(chunks) < 11, "a speculative chunk carries several tokens"
    status, body = pair.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], max_tokens=8)
    message = json.loads(body)["choices"][0]["message"]
    assert status == 200
    assert message["reasoning"]
    assert message["content"]

    families = {family.name: family for family in text_string_to_metric_families(pair.get("/metrics")[1])}
    assert families["vllm:generation_tokens"].samples[0].value == 20
    assert families["vllm:generation_tokens"].samples[0].labels == {"engine": "0", "model_name": "tiny"}
    assert families["vllm:time_to_first_token_seconds"].type == "histogram"
    assert families["vllm:num_requests_running"].samples[0].value == 0
    assert "vllm:spec_decode_num_accepted_tokens" in families
    assert "process_resident_memory_bytes" in families


def test_api_answers_like_vllm(pair: Pair) -> None:
    pair.serving("--api-key", "secret")
    assert pair.get("/health") == (200, "")
    assert json.loads(pair.get("/version")[1]) == {"version": "0.32.0"}
    assert pair.get("/v1/models")[0] == 401
    assert pair.get("/nothing")[0] == 404


def test_bad_requests(pair: Pair) -> None:
    pair.serving()
    status, body = pair.post(model="other")
    assert (status, json.loads(body)["error"]["type"]) == (404, "NotFoundError")
    status, body = pair.post(prompt=[1] * 1025)
    assert status == 400
    assert "maximum context length is 1024 tokens" in body
    assert pair.post(max_tokens=2000)[0] == 400
    assert json.loads(pair.get("/v1/models")[1])["data"][0]["max_model_len"] == 1024


def test_requests_beyond_the_limit_wait(pair: Pair) -> None:
    pair.serving("--max-num-seqs", "1")
    with pair.stream(), pair.later(max_tokens=20) as second:
        wait_for(lambda: pair.metric("vllm:num_requests_waiting") == 1, "one waiting")
        assert pair.metric("vllm:num_requests_running") == 1
    second.join(10)
    wait_for(lambda: pair.metric("vllm:num_requests_running") == 0, "the first, given up by its client, aborted")
    assert (
        'vllm:request_success_total{finished_reason="abort",engine="0",model_name="tiny"} 1.0'
        in pair.get("/metrics")[1]
    )


def test_peer_killed_while_idle_is_seen_by_nobody_until_a_request(pair: Pair) -> None:
    head, peer = pair.serving()
    os.kill(peer.pid("VLLM::Worker_TP1"), signal.SIGKILL)
    assert peer.status(2) == 0
    peer.says("Worker proc VllmWorker-1 died unexpectedly (exit code: None), shutting down executor.")
    before = head.log
    assert pair.get("/health")[0] == 200
    assert head.log.replace(before, "").count("ERROR") == 0
    assert pair.post()[0] == 500
    assert head.status() == 0
    head.says("gloo/transport/tcp/pair.cc")
    assert not head.pids()
    assert pair.shared() == LEFTOVERS


def test_peer_killed_while_busy_ends_streams_with_an_error_chunk(pair: Pair) -> None:
    head, peer = pair.serving()
    with pair.stream() as lines:
        peer.kill()
        *_, error, done = lines
    assert done == "[DONE]"
    assert json.loads(error)["error"]["code"] == 500
    assert pair.get("/health")[0] == 503
    assert pair.get("/v1/models")[0] == 200
    assert head.status() == 0
    assert "[shutdown] API server: shutdown triggered" not in head.log
    head.says("EngineCore encountered a fatal error.")


@pytest.mark.parametrize("busy", [True, False])
def test_head_killed_leaves_a_widow(pair: Pair, busy: bool) -> None:
    head, peer = pair.serving()
    if busy:
        with pair.stream() as lines:
            head.kill()
            with suppress(OSError):  # cut, not ended
                assert "[DONE]" not in list(lines)
        peer.says("WorkerProc hit an exception.")
    else:
        head.kill()
    wait_for(pair.widowed, "a socket to the master port in CLOSE_WAIT")
    assert ("WorkerProc hit an exception." in peer.log) is busy
    assert alive(peer.pid("VLLM::Worker_TP1"))
    assert peer.process.poll() is None


def test_frozen_peer_freezes_tokens_until_the_time_out(tmp_path: Path) -> None:
    pair = Pair(tmp_path, VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS="1.2", VLLM_RINGBUFFER_WARNING_INTERVAL="0.5")
    try:
        head, peer = pair.serving()
        with pair.stream() as lines:
            os.kill(peer.pid("VLLM::Worker_TP1"), signal.SIGSTOP)
            head.says("No available shared memory broadcast block found")
            frozen = pair.metric("vllm:generation_tokens_total")
            assert pair.get("/health")[0] == 200
            assert pair.metric("vllm:num_requests_running") == 1
            assert pair.metric("vllm:generation_tokens_total") == frozen
            *_, done = lines
        assert done == "[DONE]"
        head.says("TimeoutError: RPC call to execute_model timed out.")
        assert head.status() == 0
        os.kill(peer.pid("VLLM::Worker_TP1"), signal.SIGCONT)
        peer.says("WorkerProc hit an exception.")
        assert peer.process.poll() is None
    finally:
        pair.close()


def test_engine_core_killed_ends_the_head_with_zero(pair: Pair) -> None:
    head, peer = pair.serving()
    os.kill(head.pid("VLLM::EngineCore"), signal.SIGKILL)
    assert head.status() == 0
    assert not head.pids()
    assert peer.process.poll() is None


def test_own_worker_killed_ends_the_head_with_zero(pair: Pair) -> None:
    head, _ = pair.serving()
    os.kill(head.pid("VLLM::Worker_TP0"), signal.SIGKILL)
    head.says("Worker proc VllmWorker-0 died unexpectedly")
    assert head.status(2) == 0


def test_ordered_stop_says_so_first_and_leaves_its_files(pair: Pair) -> None:
    head, peer = pair.serving()
    with pair.stream() as lines:
        began = time.monotonic()
        head.process.send_signal(signal.SIGTERM)
        *_, done = lines
    assert done == "[DONE]"
    assert head.status() == 0
    assert time.monotonic() - began < 2
    assert head.log.index("[shutdown] API server: shutdown triggered") < head.log.index("EngineDeadError")
    assert "EngineCore encountered a fatal error." not in head.log
    peer.process.send_signal(signal.SIGTERM)
    assert peer.status() == 0
    peer.says("sending SIGKILL count=1")
    assert not peer.pids()
    assert pair.shared() == LEFTOVERS


def test_head_alone_waits_for_ever(pair: Pair) -> None:
    head = pair.start(0)
    head.pid("VLLM::Worker")
    head.says("distributed_init_method=tcp://127.0.0.1")
    assert "world_size=2 rank=0" in last_line(head)
    assert pair.shared() == [("psm", 167772180), ("sem", 32)]
    assert pair.get("/health")[0] == 0
    head.process.send_signal(signal.SIGTERM)
    assert head.status() == 130


def test_rendezvous_limit(pair: Pair) -> None:
    head = pair.start(0, "--distributed-timeout-seconds", "1")
    assert head.status() == 1
    head.says("waiting for clients. 1/2 clients joined.")
    assert pair.shared() == []


def test_master_port_taken(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", pair.master)):
        head = pair.start(0)
        assert head.status() == 1
    head.says(
        f"DistNetworkError: The server socket has failed to listen on any local network address. port: {pair.master}"
    )
    assert "Engine core initialization failed." in last_line(head)
    assert pair.shared() == []


def test_api_port_taken(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", pair.port)):
        head = pair.start(0)
        assert head.status() == 1
    assert "OSError: [Errno 98] Address already in use" in last_line(head)


def test_forgotten_headless(pair: Pair) -> None:
    head, peer = pair.start(0), pair.start(1, headless=False)
    assert peer.status() == 1
    peer.says("AssertionError: collective_rpc should not be called on follower node")
    assert not peer.pids()
    assert "Loading weights took" in last_line(head)
    assert head.process.poll() is None


def test_smaller_peer_fails_alone_and_freezes_the_head(pair: Pair) -> None:
    head, peer = pair.start(0), pair.start(1, "--max-num-seqs", "2")
    head.says("Application startup complete.")
    with pair.stream(), pair.later(max_tokens=900) as second, pair.later(max_tokens=900) as third:
        peer.says("WorkerProc hit an exception.")
        assert "AssertionError" in peer.log
        frozen = pair.metric("vllm:generation_tokens_total")
        assert pair.ask("/v1/completions", b'{"prompt": "x"}', seconds=0.5)[0] == 0, "no answer in half a second"
        assert pair.metric("vllm:generation_tokens_total") == frozen
        assert "ERROR" not in head.log
        assert pair.get("/health")[0] == 200
        assert peer.process.poll() is None
        pair.close()
    for thread in (second, third):
        thread.join(10)
