"""A rank prints what no engine would print on purpose: what that costs is told, and everything else goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .demo_world import Terminal, demo_on_a_terminal

pytestmark = pytest.mark.slow

DIGITS = "9" * 5000
PRINTED = (
    f"non-default args: {{'dtype': {DIGITS}, 'seed': 0x{'f' * 5000}, 'quantization': '\\ud800', 'max_model_len': 4096}}",
    "x" * 600_000,
    f"Launching vLLM (v{'1.' * 400}) headless",
    "\x1b[2J\x07 title \u2028 of \x00 nobody",
    '{"a":' * 3000,
)
METRICS = (
    f'vllm:cache_config_info{{num_gpu_blocks="{DIGITS}",block_size="16"}} 1.0\n'
    'vllm:generation_tokens_total{engine="1"} NaN\n'
)


def test_what_one_rank_prints_costs_what_it_says_of_itself_and_nothing_else(folder: Path) -> None:
    with demo_on_a_terminal() as demo:
        env = {"SPARKD_SOCKET": demo.found(r"SPARKD_SOCKET=(\S+)"), "NO_COLOR": "1"}

        def ctl(*words: str) -> tuple[int, str]:
            terminal = Terminal("ctl", *words, columns=150, env=env)
            return terminal.end(), terminal.text

        def drift() -> Any:
            """Without what is the machine's own: the lab, tested beside this, turns on its swap."""
            found = json.loads(ctl("drift", "--json")[1])
            return {**found, "findings": [one["name"] for one in found["findings"] if one["kind"] != "host"]}

        (place,) = folder.glob("*/demo.json")
        faults = Path(json.loads((place.parent / "demo.json").read_text())["folder"]) / "faults.json"
        faults.write_text(json.dumps({"rank": 1, "prints": PRINTED}))
        assert ctl("restart", "demo", "--yes", "--wait")[0] == 0
        faults.write_text(json.dumps({"rank": 0, "metrics": METRICS}))

        code, said = ctl("bless", "-m", "with one rank that prints too much")
        assert code == 0, said
        assert "It does not hold --seed by its log of rank 1: a number of more than 20 digits" in said
        kept = ctl("known-good", "show")[1]
        assert DIGITS[:50] not in kept
        assert 'quantization: "?"' in kept, "what else it says is recorded"
        found = drift()
        assert (found["unread"], found["findings"]) == ({}, [])
        told = [one for one in found["not_compared"] if "of rank 1" in one]
        assert f"--dtype by its log of rank 1: {DIGITS[:20]}… is no value" in told
        assert "--seed by its log of rank 1: a number of more than 20 digits" in told

        assert Terminal("demo", "fault", "drift").end() == 0
        assert ctl("restart", "demo", "--yes", "--wait")[0] == 0
        assert drift()["findings"] == ["--max-num-seqs"], "still compared"
