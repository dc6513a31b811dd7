"""vLLM's own words of how it runs: a recorded start-up log, and answers in the shape of its pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sparkd.engines import ENGINES
from sparkd.engines.vllm import said
from sparkd.model.printed import LONGEST_LINE, Unread

RECORDED = Path(__file__).parent / "recorded"
CONFIGURED = (
    "(APIServer pid=1) INFO 11-27 21:33:50 [api_utils.py:286] non-default args: {'model_tag': '/lab/model', "
    "'host': '0.0.0.0', 'max_model_len': 1024, 'enforce_eager': True, 'served_model_name': ['tiny', \"it's, {x}\"], "
    "'compilation_config': {'mode': None, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'x': {'a': 1}}, "
    "'attention_backend': <AttentionBackendEnum.TRITON_ATTN: 'a.b'>, 'gpu_memory_utilization': 0.1}"
)


def log(name: str) -> list[str]:
    return (RECORDED / name).read_text("utf-8").splitlines()


def test_the_head_says_what_it_was_given() -> None:
    assert said.arguments(log("head-start.log")) == {
        "host": "0.0.0.0",
        "max-model-len": 1024,
        "enforce-eager": True,
        "served-model-name": ["tiny"],
        "master-addr": "10.77.0.11",
    }, "and the rest of the line is cut off"
    assert said.in_use(log("head-start.log")) == {"max-model-len": 1024}


def test_a_headless_rank_says_only_what_became_of_it() -> None:
    assert said.arguments(log("worker-start.log")) is None
    assert said.in_use(log("worker-start.log")) == {"max-model-len": 1024, "version": "0.32.0"}


def test_objects_are_left_out_and_what_stands_behind_them_is_read() -> None:
    """Of an object vLLM prints every field, and enumerations as no Python reads them (evidence 11)."""
    assert said.arguments([CONFIGURED]) == {
        "host": "0.0.0.0",
        "max-model-len": 1024,
        "enforce-eager": True,
        "served-model-name": ["tiny", "it's, {x}"],
        "gpu-memory-utilization": 0.1,
    }


@pytest.mark.parametrize("cut", range(70, len(CONFIGURED), 7))
def test_a_line_that_was_cut_is_read_as_far_as_it_goes(cut: int) -> None:
    whole = said.arguments([CONFIGURED]) or {}
    found = said.arguments([CONFIGURED[:cut]]) or {}
    assert found == {name: whole.get(name) for name in found}


@pytest.mark.parametrize(
    ("path", "answer", "found"),
    [
        (
            "/v1/models",
            {"object": "list", "data": [{"id": "tiny", "root": "/lab/model", "max_model_len": 1024}, {"id": "lora"}]},
            {"served-model-name": "tiny", "max-model-len": 1024},
        ),
        ("/v1/models", {"data": []}, {}),
        ("/v1/models", {"data": {"id": 1}}, {}),
        ("/v1/models", [], {}),
        ("/version", {"version": "0.32.0"}, {"version": "0.32.0"}),
        ("/version", {"version": 3}, {}),
        (
            "/server_info?config_format=json",
            {"vllm_config": {"scheduler_config": {"max_num_seqs": 4}, "model_config": {"enforce_eager": True}}},
            {"max-num-seqs": 4, "enforce-eager": True},
        ),
        ("/server_info?config_format=json", {"vllm_config": "model=…"}, {}),
    ],
)
def test_pages(path: str, answer: Any, found: dict[str, Any]) -> None:
    assert said.page(path, json.loads(json.dumps(answer))) == found


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (DIGITS, "99999999999999999999… is no value"),
        ("0x" + "f" * 5000, "a number of more than 20 digits"),  # which Python reads, and cannot print
        ("1e999", "inf is no number"),
        ("-1e999", "-inf is no number"),
        ("'" + "x" * 5000 + "'", "a text of 5000 characters"),
        ("[1, " + DIGITS + "]", "[1, 9999999999999999… is no value"),
        ("[1, 1e999]", "inf is no number"),
        ("'" + "x" * 9000 + "'", "a value of 9002 characters"),
        ("-" * 4000 + "1", "--------------------… is no value"),
    ],
)
def test_a_value_that_is_no_value_is_said_and_costs_no_other(written: str, why: str) -> None:
    line = CONFIGURED.replace("1024", written)
    whole = said.arguments([CONFIGURED]) or {}
    assert said.arguments([line]) == {**whole, "max-model-len": Unread(why)}


def test_halves_of_characters_become_whole_ones() -> None:
    found = said.arguments(["non-default args: {'served_model_name': ['a\\ud800'], 'dtype': '\\udcff'}"])
    assert found == {"served-model-name": ["a?"], "dtype": "?"}


def test_what_became_of_a_flag_and_is_no_number_is_said() -> None:
    lines = [f"Using max model len {DIGITS}", f"Launching vLLM (v{'1.' * 100}) headless"]
    assert said.in_use(lines) == {
        "max-model-len": Unread("a number of 5000 digits"),
        "version": Unread("a version of 200 characters"),
    }
    assert said.in_use(["Using max model len ٣"]) == {}


def test_a_line_of_a_megabyte_is_cut_before_any_pattern_sees_it() -> None:
    class Line(str):
        """Tells how long the pieces are that are taken of it."""

        taken: ClassVar[list[int]] = []

        def __getitem__(self, key: Any) -> str:
            piece = super().__getitem__(key)
            self.taken.append(len(piece))
            return piece

    line = Line("Using max model len 5 " + "x" * (1 << 20))
    for read in (
        said.arguments,
        said.in_use,
        ENGINES["vllm"].findings,
        lambda lines: ENGINES["vllm"].stage([], lines, None),
    ):
        Line.taken.clear()
        read([line])
        assert Line.taken == [LONGEST_LINE]
