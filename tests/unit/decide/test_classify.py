"""What is made of every reason for which a start can be refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from sparkd.decide.classify import NOT_YET, REFUSALS, of_refusal
from sparkd.decide.holds import HEALS
from sparkd.model.action import StartRanks
from sparkd.model.config import ContainerSpec
from sparkd.model.decision import FailureClass, Phase, State
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Snapshot
from sparkd.node import refusal
from sparkd.runtimes.docker_refusals import RULES

from .world import DEPLOYMENT, NOW, decide, failed, node, seen, young

WORD = re.compile(r"[a-z0-9_-]+")
START = StartRanks((1,), 1)


def test_every_code_has_a_row_with_class_signature_and_words() -> None:
    assert set(REFUSALS) == set(FailureCode)
    for row in REFUSALS.values():
        assert isinstance(row.cls, FailureClass)
        assert WORD.fullmatch(row.signature)
        assert row.text


def test_what_holds_at_once_names_its_fact_and_what_to_do() -> None:
    for row in REFUSALS.values():
        assert row.proven == bool(row.fact) == bool(row.fix), row


@pytest.mark.parametrize("code", FailureCode)
def test_a_refused_start_is_judged_by_its_row(code: FailureCode) -> None:
    silent = of_refusal(failed(START, code, error=""), foreign=True)
    assert silent == REFUSALS[code]
    said = of_refusal(failed(START, code, error="it says so"), foreign=True)
    assert (said.cls, said.signature, said.text) == (silent.cls, silent.signature, "it says so")


def test_the_node_service_and_docker_name_no_failure_that_has_no_row() -> None:
    """mypy proves that both use members of these; the node service knows only the standard library."""
    assert set(get_args(refusal.Code)) <= set(FailureCode)
    assert {rule.code for rule in RULES} <= set(REFUSALS)


def test_a_code_of_another_version_is_one_of_which_only_the_words_are_known() -> None:
    assert FailureCode.read("path-missing") is FailureCode.PATH_MISSING
    assert FailureCode.read("of-tomorrow") is FailureCode.OTHER


# -------------------------------------------------------------------------------------------------- a missing device

RDMA = replace(
    DEPLOYMENT,
    container=ContainerSpec(
        mounts=DEPLOYMENT.container.mounts, devices=("/dev/infiniband:/dev/ib:rw",), privileged=False
    ),
)
PRECHECK = State(phase=Phase.PRECHECK, since=NOW - 5)


def look(there: str, **more: Any) -> Snapshot:
    paths = {"/models": "dir", "/dev/infiniband": there}
    return seen(node("spark1", paths={**paths, "/dev/infiniband": "dir"}), node("spark2", paths=paths), **more)


def test_a_missing_device_holds_the_start_and_goes_on_when_it_is_there() -> None:
    """It was named and had no row, so it was tried again until the budget was used up."""
    held = decide(PRECHECK, look("missing"), deployment=RDMA)
    assert held.state.hold is not None
    assert (held.state.phase, held.state.hold.fact) == (Phase.HELD, "device:spark2:/dev/infiniband")
    assert held.sentence == "held: /dev/infiniband, a device of the container, does not exist on spark2"
    assert held.state.hold.heals_itself
    still = decide(held.state, look("missing"), now=NOW + 31, deployment=RDMA)
    assert still.state.phase is Phase.HELD
    assert decide(held.state, look("dir"), now=NOW + 31, deployment=RDMA).reason == "healed"


def test_a_start_that_docker_refuses_for_a_device_heals_by_the_same_fact() -> None:
    starting = State(phase=Phase.START_WORKERS, generation=1, since=NOW - 5, started_at=NOW - 5)
    outcome = failed(START, FailureCode.DEVICE_MISSING, error="device /dev/infiniband does not exist")
    held = decide(starting, look("dir", outcome=outcome), deployment=RDMA)
    assert (held.state.phase, held.reason) == (Phase.HELD, "held-device")
    assert decide(held.state, look("dir"), now=NOW + 31, deployment=RDMA).reason == "healed"


def test_soon_after_a_boot_its_driver_is_not_loaded_yet() -> None:
    paths = {"/models": "dir", "/dev/infiniband": "missing"}
    there = node("spark1", paths={"/models": "dir", "/dev/infiniband": "dir"})
    assert decide(PRECHECK, seen(there, young("spark2", paths=paths)), deployment=RDMA).reason == "not-yet-device"


def test_a_privileged_container_gets_the_devices_that_there_are() -> None:
    privileged = replace(RDMA, container=replace(RDMA.container, privileged=True))
    assert (RDMA.devices, privileged.devices) == (("/dev/infiniband",), ())
    assert decide(PRECHECK, look("missing"), deployment=privileged).state.phase is not Phase.HELD


def facts() -> Iterator[str]:
    yield from (row.fact for row in REFUSALS.values() if row.fact)


def test_what_may_not_be_there_yet_is_a_fact_of_a_row() -> None:
    assert set(facts()) >= NOT_YET
    assert set(facts()) - set(HEALS) == {"gpu"}, "nobody can tell from outside whether Docker could give it again"
