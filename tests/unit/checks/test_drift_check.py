"""The next start against what worked: said before it, and only what breaks stops it, where that is wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import scene

from sparkd.checks import drift_since_known_good
from sparkd.checks.shared import run
from sparkd.drift import Difference, Severity
from sparkd.drift.report import Drift
from sparkd.model.check import Finding
from sparkd.model.policy import Policy
from sparkd.model.snapshot import Unknown

FORK = Difference(
    severity=Severity.BREAKS, kind="env", name="VLLM_WORKER_MULTIPROC_METHOD", live="fork", why="forked workers die"
)
SEQS = Difference(severity=Severity.SLOWS, kind="flag", name="--max-num-seqs", known=4, live=8, rank=1, node="spark2")
SAME = Difference(severity=Severity.BENIGN, kind="flag", name="--host", live="0.0.0.0")


def found(*differences: Difference, policy: str = "warn", recorded: bool = True) -> list[Finding]:
    it: Any = Drift(against="known-good 12", live="the next start", at=0.0, seconds=0.0, findings=differences)
    at = replace(scene(policy=Policy(drift=policy)), drift=it if recorded else None)
    rows = run.evaluate(run.chosen([drift_since_known_good.CHECK], at.deployment, {}), at, {})
    return [one for one in rows if one.status not in ("ok", "unknown")]


def test_nothing_is_said_where_nothing_differs_or_nothing_is_known() -> None:
    assert found(SAME) == []
    assert found(recorded=False) == []


def test_a_warning_names_all_of_it() -> None:
    breaking, rest = found(FORK, SEQS, SAME)
    assert (breaking.status, rest.status, rest.node) == ("warn", "warn", "spark2")
    assert breaking.text == (
        "differs from the last good (known-good 12) in: VLLM_WORKER_MULTIPROC_METHOD; forked workers die"
    )
    assert rest.text == "differs from the last good (known-good 12) in: --max-num-seqs on rank 1"
    assert rest.evidence == ("slows: --max-num-seqs (rank 1): 4 -> 8",)
    assert "rollback demo" in rest.fix
    (kernel,) = found(replace(SEQS, kind="host", name="kernel"))
    assert kernel.fix == "sparkd ctl drift demo", "no deployment file brings a kernel back"


def test_where_it_is_refused_only_what_breaks_fails() -> None:
    breaking, rest = found(FORK, SEQS, policy="refuse")
    assert (breaking.status, rest.status) == ("fail", "warn")
    assert "--force" in breaking.fix
    assert [one.status for one in found(SEQS, policy="refuse")] == ["warn"]


def test_it_can_be_off() -> None:
    assert found(FORK, policy="off") == []


@pytest.mark.parametrize("kind", ["flag", "host"])
def test_a_node_that_has_just_booted_may_lack_something_still(kind: str) -> None:
    assert found(replace(FORK, kind=kind, node="spark1"), policy="refuse")[0].not_yet is (kind == "host")


def test_records_that_cannot_be_read_are_said_and_stop_nothing() -> None:
    at = replace(scene(policy=Policy(drift="refuse")), drift=Unknown("4.yaml is no record", 0.0))
    (said, *_) = run.evaluate([drift_since_known_good.CHECK], at, {})
    assert (said.status, said.text) == ("warn", "what worked is not known now: 4.yaml is no record")
    assert said.fix == f"sparkd ctl known-good list {at.deployment.name}"
