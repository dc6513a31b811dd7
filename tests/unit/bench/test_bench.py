"""`make bench`: its arithmetic on made-up numbers, and every benchmark once for real, at its shortest."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.growth import Sample, per_day
from bench.proc import quantile
from bench.scale import CYCLES_PER_DAY
from bench.table import Row, Verdict, as_json, judged, table

ROOT = Path(__file__).parents[3]
MB = 2**20
BENCHMARKS = {"memory", "idle", "ctl", "http", "checks", "drift", "mute", "detect", "steps", "growth", "many"}


def row(value: float | None, limit: float | None) -> Row:
    return Row(benchmark="b", what="thing", unit="ms", value=value, limit=limit, note="how")


@pytest.mark.parametrize(
    ("value", "limit", "quick", "verdict"),
    [
        (50.0, 50.0, False, Verdict.MET),
        (50.1, 50.0, False, Verdict.MISSED),
        (50.1, 50.0, True, Verdict.NOT_JUDGED),
        (1.0, None, False, Verdict.INFO),
    ],
)
def test_a_figure_is_judged_by_its_target(value: float, limit: float | None, quick: bool, verdict: Verdict) -> None:
    assert judged(row(value, limit), quick) is verdict


def test_a_target_within_the_interval_is_neither_met_nor_missed() -> None:
    assert judged(replace(row(0.8, 1.0), within=0.3), quick=False) is Verdict.UNSURE
    assert judged(replace(row(0.8, 1.0), within=0.1), quick=False) is Verdict.MET
    assert judged(replace(row(1.8, 1.0), within=0.3), quick=False) is Verdict.MISSED


def test_what_was_not_measured_keeps_its_word() -> None:
    skipped = Row(benchmark="b", what="thing", limit=1.0, verdict=Verdict.SKIPPED)
    assert judged(skipped, quick=False) is Verdict.SKIPPED


def test_the_table_has_a_line_per_row_in_columns_and_notes_below() -> None:
    head, rule, first, second, *rest = table([row(123.4, 50.0), row(1.2345, None)]).splitlines()
    assert head.split() == ["what", "target", "measured", "ratio", "verdict"]
    assert set(rule) == {"-", " "}
    assert first.split() == ["thing", "50", "ms", "123", "ms", "2.47", "-"]
    assert second.index("1.23 ms") == first.index("123 ms") == head.index("measured")
    assert rest == ["", "thing: how", "", "thing: how"]


def test_json_carries_schema_ratio_and_verdict() -> None:
    made = json.loads(json.dumps(as_json([row(30.0, 60.0)], {"mode": "quick"})))
    assert (made["schema"], made["mode"]) == (1, "quick")
    assert (made["rows"][0]["ratio"], made["rows"][0]["verdict"]) == (0.5, "-")


def test_a_quantile_is_a_measured_value() -> None:
    values = [float(number) for number in range(1, 101)]
    assert quantile(values, 0.99) == 100.0
    assert quantile(values, 0.5) == 51.0
    assert quantile([7.0], 0.99) == 7.0


def test_growth_of_a_steady_climb_is_found_and_of_a_plateau_is_none() -> None:
    climb = [Sample(cycle, int(100 * MB + 2 * MB * cycle / CYCLES_PER_DAY)) for cycle in range(0, 10_000, 5)]
    grown, within = per_day(climb)
    assert grown == pytest.approx(2.0, abs=0.01)
    assert within == pytest.approx(0.0, abs=0.01)
    warm = [Sample(cycle, min(90 * MB + cycle * 10_000, 100 * MB)) for cycle in range(0, 10_000, 5)]
    assert per_day(warm) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_benchmark_runs_in_a_minute(tmp_path: Path) -> None:
    """Whether it fits the targets is for `make bench` to say: no timing fails CI."""
    results = tmp_path / "results.json"
    argv = [sys.executable, "-m", "tests.bench", "--quick", "--json", str(results)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(results.read_text("utf-8"))["rows"]
    assert {one["benchmark"] for one in rows if one["value"] is not None} == BENCHMARKS
    assert [one["what"] for one in rows if one["value"] is None] == ["container exit to decision"]
    assert all(one["verdict"] == "quick" for one in rows if one["ratio"] is not None)
