"""No false restart of what is merely slow, and no patience with what only looks busy: whole machines, in virtual time."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkd.model.decision import Phase

from .driver import Driver
from .loads import COMPILE, PREFILL, SPIN, TRICKLE, WAITING, Doing
from .test_interrupted import DEPLOYMENT, serves, serving

BLIND = None
"""Nothing is seen of what a node does: no GPU, no nvidia-smi, nothing of the fabric."""
SLACK_S = 140.0
"""From the last token to the first canary (120 s), and from the end of one to the look that decides."""


def both(doing: Doing | None) -> dict[str, Doing]:
    return dict.fromkeys(DEPLOYMENT.nodes, doing) if doing is not None else {}


def settled(doing: Doing | None = WAITING) -> Driver:
    """It has served for ten minutes with nobody asking: the power of waiting is known, where it can be."""
    return deepcopy(_settled(doing))


@cache
def _settled(doing: Doing | None) -> Driver:
    driver = serving()
    driver.cluster.idle, driver.cluster.doing = True, both(doing)
    driver.cycles(120)
    return driver


def silent_for(driver: Driver, seconds: float, doing: dict[str, Doing]) -> None:
    """The engine answers nothing for so long, while its nodes do this; afterwards it is as before."""
    driver.cluster.silent, driver.cluster.doing = True, doing
    driver.cycles(int(seconds // driver.policy.period))
    driver.cluster.silent, driver.cluster.doing = False, both(WAITING)


def ended_after(driver: Driver, doing: dict[str, Doing], limit_s: float = 4000.0) -> float | None:
    """Seconds until the generation is given up, None where it is not."""
    began = driver.cluster.now
    driver.cluster.silent, driver.cluster.doing = True, doing
    ended = driver.until(lambda: driver.state.phase is not Phase.SERVE, int(limit_s // driver.policy.period))
    return driver.cluster.now - began if ended else None


def signature(driver: Driver) -> str:
    assert driver.state.failure is not None
    return driver.state.failure.signature


def still_serves(driver: Driver) -> bool:
    """The same generation, with nothing failed, once it has been asked again."""
    driver.cycles(60)
    return serves(driver) and driver.state.generation == 1 and driver.state.failure is None


# ------------------------------------------------------------------------------------------------------ left alone


def test_f16_a_prefill_of_11_minutes_without_a_token_is_left_alone() -> None:
    """eugr/spark-vllm-docker#409: one step of 560,000 tokens, all requests frozen, GPUs and fabric busy."""
    driver = settled()
    silent_for(driver, 11 * 60 + SLACK_S, both(PREFILL))
    assert "busy without tokens" in driver.state.sentence
    assert "1.2 GB/s on the fabric" in driver.state.sentence
    assert still_serves(driver)
    assert driver.state.reason == "serving"
    told = [said for kind, said in driver.events if kind == "busy"]
    assert len(told) == 1, "once"
    assert "but a node works: spark1: GPU 99 % 690 W (119 W when it waits)" in told[0]


def test_f16_a_prefill_whose_gpus_are_seen_on_one_node_only_is_left_alone() -> None:
    driver = settled()
    silent_for(driver, 15 * 60, {"spark2": PREFILL})
    assert still_serves(driver)


@pytest.mark.parametrize("apart", [5.0, 10.0])
def test_f16_nodes_that_are_asked_at_different_looks_are_known_together(apart: float) -> None:
    """Each node has its own clock of when it was asked."""
    driver = settled()
    driver.cluster.looked["spark1"] = driver.cluster.now + apart - 60.0
    driver.cluster.looked["spark2"] = driver.cluster.now - 60.0
    silent_for(driver, 15 * 60, {"spark1": SPIN, "spark2": PREFILL})
    assert "spark1: GPU 100 %" in driver.state.sentence
    assert "spark2: GPU 99 %" in driver.state.sentence
    assert still_serves(driver)


def test_a_compile_of_70_seconds_is_left_alone_whatever_can_be_seen() -> None:
    for doing in (BLIND, COMPILE, SPIN, WAITING):
        driver = settled(None)
        silent_for(driver, 70, both(doing))
        assert still_serves(driver), doing


def test_f15_a_compile_of_11_minutes_on_one_rank_is_left_alone() -> None:
    """MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#65: one rank compiles, the other one spins meanwhile."""
    driver = settled()
    silent_for(driver, 11 * 60 + SLACK_S, {"spark1": COMPILE, "spark2": SPIN})
    assert "rank 0 compiles (ptxas) with 0.9 cores" in driver.state.sentence
    assert still_serves(driver)


@pytest.mark.parametrize("seconds", [286, 550])
@pytest.mark.parametrize("doing", [BLIND, SPIN, WAITING, PREFILL], ids=["blind", "spin", "waiting", "prefill"])
def test_f17_a_stall_that_finishes_before_ten_minutes_is_left_alone(seconds: float, doing: Doing | None) -> None:
    """MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks#22: windows without progress that finish correctly after 286 to 550 s."""
    driver = settled()
    silent_for(driver, seconds, both(doing))
    assert still_serves(driver)


def test_f14_a_saturated_engine_whose_canaries_are_late_is_left_alone() -> None:
    driver = settled()
    driver.cluster.idle, driver.cluster.saturated, driver.cluster.requests = False, True, 64.0
    driver.cluster.doing = both(PREFILL)
    driver.cycles(900)
    driver.cluster.saturated = False
    assert still_serves(driver)


def test_f18_requests_that_seem_to_run_with_nobody_there_are_no_fault() -> None:
    """`num_requests_running` stays above zero: canaries decide, and what the nodes draw is not learned by such looks."""
    driver = serving()
    driver.cluster.idle, driver.cluster.requests, driver.cluster.doing = True, 1.0, both(SPIN)
    driver.cycles(900)
    assert still_serves(driver)
    assert driver.state.reason == "serving"
    assert driver.state.waiting_w == ()


# ------------------------------------------------------------------------------------------------------- acted on


@pytest.mark.parametrize(
    "doing",
    [both(SPIN), {"spark1": SPIN, "spark2": WAITING}, both(WAITING), both(TRICKLE), both(BLIND)],
    ids=["spin", "one spins", "nothing works", "a trickle", "blind"],
)
def test_f18_what_only_looks_busy_is_acted_on_at_ten_minutes(doing: dict[str, Doing]) -> None:
    """/health 200 and nothing generated for ever; 96 % at 20 W with still counters is no work."""
    driver = settled(WAITING if doing else None)
    took = ended_after(driver, doing)
    assert took is not None
    assert 600 <= took <= 600 + SLACK_S + 60
    assert signature(driver) == "stalled"


def test_f18_a_spin_is_told_with_its_figures() -> None:
    driver = settled()
    assert driver.state.waiting_w == (("spark1", 119.0), ("spark2", 119.0))
    ended_after(driver, both(SPIN))
    assert driver.state.failure is not None
    (evidence,) = driver.state.failure.evidence
    assert evidence.startswith(
        "its GPUs run and only wait, as in a collective whose peer is gone: "
        "spark1: GPU 100 % 120 W (119 W when it waits) memory 0 %, nothing on the fabric"
    )


def test_f16_what_works_without_end_is_acted_on_at_busy_after() -> None:
    driver = settled()
    took = ended_after(driver, both(PREFILL))
    assert took is not None
    assert 1800 <= took <= 1800 + SLACK_S + 60
    assert signature(driver) == "busy"


def test_f16_it_says_when_it_would_act() -> None:
    driver = settled()
    driver.cluster.silent, driver.cluster.doing = True, both(PREFILL)
    driver.cycles(120)
    assert driver.decision is not None
    assert driver.decision.next is not None
    failing = driver.state.watch.canary_failing_since
    assert failing is not None
    assert (driver.decision.next.at, driver.decision.reason) == (failing + 1800, "not-answering")


def test_f18_work_that_turns_into_a_spin_is_acted_on_ten_minutes_after_its_end() -> None:
    driver = settled()
    driver.cluster.silent, driver.cluster.doing = True, both(PREFILL)
    driver.cycles(int(8 * 60 // driver.policy.period))
    assert driver.state.phase is Phase.SERVE
    took = ended_after(driver, both(SPIN))
    assert took is not None
    assert 600 - 30 <= took <= 600 + 60
    assert signature(driver) == "stalled"


def test_f18_one_look_that_shows_work_puts_nothing_off() -> None:
    driver = settled()
    driver.cluster.silent, driver.cluster.doing = True, both(SPIN)
    driver.cycles(60)
    driver.cluster.doing = both(PREFILL)
    driver.cycles(3)
    took = ended_after(driver, both(SPIN))
    assert took is not None
    assert took <= 600 - 315 + SLACK_S + 60


def test_what_was_learned_and_seen_outlives_sparkd() -> None:
    driver = settled()
    driver.cluster.silent, driver.cluster.doing = True, both(PREFILL)
    driver.cycles(100)
    driver.reborn()
    driver.cycles(60)
    assert (driver.state.phase, driver.state.waiting_w) == (Phase.SERVE, (("spark1", 119.0), ("spark2", 119.0)))
    driver.cluster.silent = False
    assert still_serves(driver)


# ---------------------------------------------------------------------------------------------------- in any order


PIECES = st.lists(
    st.tuples(st.sampled_from((PREFILL, COMPILE, SPIN, WAITING, TRICKLE, BLIND)), st.integers(6, 120)),
    min_size=1,
    max_size=12,
)


@settings(parent=settings.get_profile("ci"), max_examples=25)
@given(PIECES)
def test_f16_f17_whatever_the_nodes_do_it_is_ended_neither_sooner_than_a_stall_nor_later_than_busy_after(
    pieces: list[tuple[Doing | None, int]],
) -> None:
    """And never while a node works, before `busy_after`."""
    driver = settled()
    began, worked = driver.cluster.now, driver.cluster.now
    driver.cluster.silent = True
    for doing, cycles in [*pieces, (BLIND, 400)]:
        driver.cluster.doing = both(doing)
        for _ in range(cycles):
            driver.cycle()
            if driver.state.phase is not Phase.SERVE:
                break
            if driver.state.watch.worked_at is not None:
                worked = max(worked, driver.state.watch.worked_at)
        if driver.state.phase is not Phase.SERVE:
            break
    took, rested = driver.cluster.now - began, driver.cluster.now - worked
    assert driver.state.failure is not None
    if driver.state.failure.signature == "stalled":
        assert rested >= 600, "it was ended while, or right after, a node worked"
        assert took <= 1800 + SLACK_S + 60
    else:
        assert driver.state.failure.signature == "busy"
        assert 1800 <= took <= 1800 + SLACK_S + 60
