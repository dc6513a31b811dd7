"""vLLM's own output -> stages, findings, progress. Logs are those of real two-node runs (0.32.0), shortened."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkd.engines import ENGINES
from sparkd.engines.prometheus import MOST_SAMPLES
from sparkd.model.config import Deployment, Warmup
from sparkd.model.machine import Socket
from sparkd.model.printed import Unread
from sparkd.model.snapshot import EngineMetrics

VLLM = ENGINES["vllm"]
RECORDED = Path(__file__).parent / "recorded"


def log(name: str) -> list[str]:
    return (RECORDED / f"{name}.log").read_text().splitlines()


def stages(lines: list[str]) -> list[str]:
    """The stages that a start goes through, line by line."""
    seen = [VLLM.stage([], lines[: n + 1], None) for n in range(len(lines))]
    return [stage for before, stage in zip([None, *seen], seen, strict=False) if stage is not None and stage != before]


def test_a_head_starts_in_stages() -> None:
    assert stages(log("head-start")) == ["process", "engine", "rendezvous", "weights", "kv-cache", "api"]


def test_a_worker_starts_in_stages() -> None:
    assert stages(log("worker-start")) == ["process", "engine", "rendezvous", "weights", "kv-cache"]


def test_stages_never_go_back() -> None:
    assert [VLLM.stages.index(stage) for stage in stages(log("head-start"))] == sorted(
        VLLM.stages.index(stage) for stage in stages(log("head-start"))
    )
    assert VLLM.stages[-1] == "ready"


HEAD_ALONE = [
    (["vllm serve"], None),
    (["vllm serve", "/lab/vllm/bin/python3 -m vllm.model_exec"], None),
    (["vllm serve", "resource_tracker", "/lab/vllm/bin/python3 -c from multiproce"], None),
    (["vllm serve", "resource_tracker", "VLLM::EngineCore", "/lab/vllm/bin/python3 -c from multiproce"], None),
    (["vllm serve", "resource_tracker", "VLLM::EngineCore", "VLLM::Worker"], "waits"),
]
"""The titles of a head without a worker, 0 to 42 s after its start; the last ones stay for ever (evidence 07)."""
STALE = [
    (["vllm serve", "resource_tracker", "VLLM::Worker_TP1"], "met"),
    (["vllm serve", "resource_tracker", "VLLM::Worker"], "waits"),
    (["vllm serve", "resource_tracker", "VLLM::Worker_TP1", "VLLM::Worker"], "met"),
    (["mine::Worker_PP1_TP0"], "met"),
    (["VLLM::Worker "], "waits"),
    (["bash -c pgrep VLLM::Worker", "[VLLM::Worker]"], None),
    ([], None),
]
"""A worker of an earlier start, one of this, and both on one node (evidence 15); a shell and a zombie are none."""


@pytest.mark.parametrize(("titles", "meeting"), [*HEAD_ALONE, *STALE])
def test_titles_say_whether_a_rank_waits_for_its_peers(titles: list[str], meeting: str | None) -> None:
    assert VLLM.meeting(titles) == meeting


def test_every_stage_has_words() -> None:
    assert set(VLLM.stage_words) == set(VLLM.stages)


@pytest.mark.parametrize(
    ("titles", "stage"),
    [
        ([], None),
        (["vllm serve /m"], "process"),
        (["vllm serve /m", "VLLM::EngineCore"], "engine"),
        (["vllm serve /m", "VLLM::EngineCore_DP0"], "engine"),
        (["VLLM::EngineCore", "VLLM::Worker"], "rendezvous"),
        (["VLLM::EngineCore", "VLLM::Worker_TP0"], "weights"),
        (["VLLM::EngineCore", "VLLM::Worker_TP0_EP0"], "weights"),
        (["VLLM::Worker "], "rendezvous"),
        (["mine::Worker_PP1_TP0"], "weights"),
    ],
)
def test_titles_tell_who_waits_for_a_peer(titles: list[str], stage: str | None) -> None:
    assert VLLM.stage(titles, [], None) == stage


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Dynamo bytecode transform time: 5.21 s", "compile"),
        ("torch.compile takes 16.02 s in total", "compile"),
        ("Available KV cache memory: 74.43 GiB", "kv-cache"),
        ("GPU KV cache size: 612,341 tokens", "kv-cache"),
        ("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  12%|", "graphs"),
        ("Graph capturing finished in 180 secs, took 1.20 GiB", "graphs"),
        ("Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.", "process"),
        ("INFO:     Application startup complete.", "api"),
    ],
)
def test_lines_of_gpu_runs(line: str, stage: str) -> None:
    assert VLLM.stage([], [line], None) == stage


def test_health_alone_makes_it_ready() -> None:
    assert VLLM.stage([], [], 200) == "ready"
    assert VLLM.stage(["vllm serve"], [], 503) == "process"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("head-start", ()),
        ("worker-start", ()),
        ("head-crash", ("worker-exception: fault", "engine-dead: fault")),
        ("head-stop", ("shutdown-triggered: ending", "engine-dead: fault")),
        ("head-wedge", ("peer-hint: hint", "engine-dead: fault", "rpc-timeout: fault")),
        ("worker-exception", ("worker-exception: fault",)),
        ("worker-died", ("worker-died: process-lost",)),
    ],
)
def test_findings(name: str, found: tuple[str, ...]) -> None:
    assert tuple(f"{one.name}: {one.kind}" for one in VLLM.findings(log(name))) == found


# ------------------------------------------------------------------------------------------------------------- metrics

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.125
vllm:prompt_tokens_total{engine="0",model_name="a \\"b\\" {c}, d"} 1.5e+03
vllm:generation_tokens_total{engine="0",model_name="tiny"} 849.0 1764280000000
vllm:generation_tokens_total{engine="1",model_name="tiny"} 1.0
vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.7e+09
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 200.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="10"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="0"} 178.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 113.0
"""


def test_metrics_of_a_page() -> None:
    found = VLLM.metrics(PAGE)
    assert isinstance(found, EngineMetrics)
    assert (found.running, found.waiting, found.prompt_tokens, found.generation_tokens) == (2, 4, 1500, 850)
    assert (found.kv_cache_usage, found.acceptance) == (0.125, (0.89, 0.565, 0.01))


def test_metrics_by_presence() -> None:
    old = VLLM.metrics("vllm:generation_tokens_total 5\nvllm:gpu_cache_usage_perc 0.5\n")
    assert isinstance(old, EngineMetrics)
    assert (old.generation_tokens, old.running, old.kv_cache_usage, old.acceptance) == (5, 0, 0.5, ())


@pytest.mark.parametrize("page", ["", "<html><body>404</body></html>", "up 1\n", "vllm:generation_tokens_total of\n"])
def test_a_page_without_tokens_is_no_progress_and_no_zero(page: str) -> None:
    assert VLLM.metrics(page) is None


TOKENS = "vllm:generation_tokens_total"


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1.0", "1e308", "1e17", "9" * 5000, "1_000", "0x1f"])
@pytest.mark.parametrize("name", [TOKENS, "vllm:prompt_tokens_total", "vllm:num_requests_running"])
def test_a_counter_that_is_no_number_makes_the_page_unread_and_is_never_progress(name: str, value: str) -> None:
    """A sum without it would be another sum as soon as it is a number again, and `nan` is another than itself."""
    found = VLLM.metrics(f'{PAGE}{name}{{engine="2"}} {value}\n')
    assert isinstance(found, Unread)
    assert found.why.startswith(name)
    assert len(found.why) < 120


def test_what_the_page_says_beside_the_counters_costs_itself_alone() -> None:
    digits = "9" * 5000
    info = f'vllm:cache_config_info{{num_gpu_blocks="{digits}",block_size="16"}} 1.0\n'
    huge = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{digits}"}} 1e300\n'
    for line in (info, huge, info.replace(digits, "²"), 'vllm:spec_decode_num_drafts_total{engine="1"} NaN\n'):
        found = VLLM.metrics(PAGE + line)
        assert isinstance(found, EngineMetrics)
        assert (found.prompt_tokens, found.generation_tokens, found.kv_cache_tokens) == (1500, 850, None)
        assert all(0 <= part <= 1 for part in found.acceptance)


def test_a_digit_of_another_script_is_none() -> None:
    assert VLLM.metrics(f"{PAGE}{TOKENS} ٣\n") == VLLM.metrics(PAGE)


def test_a_label_cannot_forge_a_sample() -> None:
    for end in "\r\x0b\x0c\x1c\x85\u2028":
        forged = f'{PAGE}vllm:request_info{{model_name="x{end}{TOKENS} 5{end}"}} 1.0\n'
        assert VLLM.metrics(forged) == VLLM.metrics(PAGE)


def test_a_page_of_a_million_series_is_given_up_early() -> None:
    found = VLLM.metrics("".join(f'{TOKENS}{{engine="{at}"}} 1\n' for at in range(MOST_SAMPLES + 1)))
    assert isinstance(found, Unread)
    assert str(MOST_SAMPLES) in found.why


@given(st.one_of(st.text(), st.text(alphabet='vllm:generation_tokens_total{}="\\ 019.eNa\n', max_size=80)))
def test_nothing_that_an_engine_prints_raises(text: str) -> None:
    VLLM.metrics(text + "\n" + PAGE)
    VLLM.metrics(text)
    VLLM.findings(text.splitlines())
    VLLM.stage(text.splitlines(), text.splitlines(), None)


# ----------------------------------------------------------------------------------------------- requests and sockets

DEPLOYMENT = Deployment(name="d", engine="vllm", nodes=("a", "b"), model="/m", served_name="tiny")


def test_a_chat_completion() -> None:
    path, body = VLLM.completion(DEPLOYMENT, "hello", 16)
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["model"], body["max_tokens"], body["stream"]) == ("tiny", 16, True)
    assert body["stream_options"] == {"include_usage": True}


def test_a_base_model_completes() -> None:
    base = Deployment(name="d", engine="vllm", nodes=("a",), model="org/base", warmup=Warmup(api="completions"))
    path, body = VLLM.completion(base, "hello", 1)
    assert (path, body["prompt"], body["model"]) == ("/v1/completions", "hello", "org/base")


def socket(state: str, local: int, remote: int) -> Socket:
    return Socket(state, "10.0.0.2", local, "10.0.0.1", remote, 0, 0, 1)


@pytest.mark.parametrize(
    ("sockets", "widowed"),
    [
        ([], False),
        ([socket("ESTABLISHED", 41000, 29501)], False),
        ([socket("ESTABLISHED", 41000, 29501), socket("CLOSE_WAIT", 41001, 29501)], True),
        ([socket("CLOSE_WAIT", 29501, 41000)], False),
        ([socket("CLOSE_WAIT", 41000, 8000)], False),
    ],
)
def test_widowed(sockets: list[Socket], widowed: bool) -> None:
    assert VLLM.widowed(sockets, DEPLOYMENT) is widowed
