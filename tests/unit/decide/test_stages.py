"""Stages of a start: what is learned of them, when one is suspect, and that nothing ends for being slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model import start_times
from sparkd.model.action import CleanNodes, WarmUp
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.launch import Launch
from sparkd.model.machine import Work
from sparkd.model.snapshot import EngineView, Outcome, Snapshot
from sparkd.model.start_times import StageTimes

from .world import DEPLOYMENT, HEAD, LOADING, NOW, UP, answer, both, container, decide, node, seen, state

WEIGHTS = (("ranks", NOW - 300), ("weights", NOW - 240))
KNOWN = StageTimes("", False, (("ranks", 20.0), ("weights", 70.0)), 120.0, ((("ranks", 20.0), ("weights", 70.0)),))


def loading(*learned: StageTimes, launch: Launch | None = None, **more: Any) -> State:
    """For four minutes now it has been loading weights."""
    known = {"stage": "weights", "stages": WEIGHTS, "started_at": NOW - 300, "learned": learned}
    return replace(HEAD, launch=launch or Launch(), **{**known, **more})


def working(cpu_ms: int, io_bytes: int = 0, only: int | None = None) -> Snapshot:
    """Both ranks run and load; what their processes have done. `only`: nothing is known of the other one."""
    ranks = (container(0), container(1))
    works = [(Work(one.id, cpu_ms, io_bytes),) if only in (None, one.rank) else () for one in ranks]
    return seen(*(node(f"spark{one.rank + 1}", one, work=works[one.rank]) for one in ranks), engine=LOADING)


# ------------------------------------------------------------------------------------------------------------- suspect


LIMITS = [(None, 180.0), (0.0, 60.0), (5.0, 60.0), (20.0, 60.0), (70.0, 210.0), (1500.0, 4500.0)]


@pytest.mark.parametrize(("longest", "limit"), LIMITS)
def test_three_times_what_it_ever_took_is_too_long(longest: float | None, limit: float) -> None:
    assert start_times.limit_s(longest) == limit
    known = () if longest is None else (StageTimes("", False, (("weights", longest),)),)
    at = (("weights", 0.0),)
    assert start_times.overdue(at, known, "", False, limit) is None
    late = start_times.overdue(at, known, "", False, limit + 1)
    assert late is not None
    assert (late.stage, late.longest_s, late.limit_s) == ("weights", longest, limit)
    assert start_times.overdue((), known, "", False, 1e9) is None


def test_a_stage_that_takes_too_long_is_named_with_what_it_took_before() -> None:
    decision = decide(loading(KNOWN), both(LOADING))
    said = "waiting for the engine: loading weights, 4 min so far, it never took more than 70 s"
    assert (decision.reason, decision.sentence, decision.actions) == ("loading", said, ())
    assert decision.events == (("suspect", said),)
    again = decide(decision.state, both(LOADING), now=NOW + 5)
    assert again.events == (), "history is told once of a stage"
    assert decide(loading(KNOWN), both(LOADING), now=NOW - 40).sentence.endswith("loading weights, 3 min so far")


def test_a_stage_that_was_never_seen_has_three_minutes() -> None:
    decision = decide(loading(), both(LOADING))
    assert decision.sentence.endswith("loading weights, 4 min so far, and no earlier start says how long that takes")
    assert decide(loading(), both(LOADING), now=NOW - 61).events == ()


def test_what_the_ranks_do_is_said_of_a_stage_that_takes_too_long() -> None:
    at = loading(KNOWN)
    for passed in range(0, 65, 5):
        decision = decide(at, working(1000 + 30 * passed), now=NOW + passed)
        at = decision.state
    assert decision.sentence.endswith("never took more than 70 s; it goes on: every rank computes, reads or writes")
    for passed in range(65, 200, 5):
        decision = decide(at, working(3000, only=1), now=NOW + passed)
        at = decision.state
    assert decision.sentence.endswith("; rank 1 on spark2 has done nothing for 2 min")


STILL = [
    (0, 0, True),
    (10, 0, True),
    (19, 65535, True),
    (20, 0, False),
    (0, 65536, False),
    (-1, 0, False),
    (0, -1, False),
]


@pytest.mark.parametrize(("cpu_ms", "io_bytes", "still"), STILL)
def test_a_clock_tick_in_an_hour_is_no_work(cpu_ms: int, io_bytes: int, still: bool) -> None:
    """Figures that became smaller are those of a process that has ended meanwhile."""
    first = decide(loading(), working(1000, 1 << 20)).state
    after = decide(first, working(1000 + cpu_ms, (1 << 20) + io_bytes), now=NOW + 10).state
    assert [one.moved_at for one in after.launch.movements] == [NOW if still else NOW + 10] * 2


def test_lines_of_the_log_that_move_are_work_of_the_head() -> None:
    at = loading(KNOWN)
    for passed in range(0, 130, 5):
        look = replace(working(1000), engines={"demo": replace(LOADING, log=passed)})
        decision = decide(at, look, now=NOW + passed)
        at = decision.state
    assert decision.sentence.endswith("; rank 1 on spark2 has done nothing for 2 min")


# ----------------------------------------------------------------------------------------------------- nothing is ended


def test_f12_a_cold_start_of_45_minutes_is_suspect_and_not_ended() -> None:
    at, reasons = loading(KNOWN, stages=(("ranks", NOW),), stage="ranks", started_at=NOW), set()
    for passed in range(0, 2700, 5):
        decision = decide(at, working(1000 * passed), now=NOW + passed)
        at = decision.state
        reasons.add(decision.reason)
    assert reasons == {"loading"}
    assert (at.failures, at.failure) == (0, None)
    assert "never took more than" in at.sentence
    ended = decide(at, working(1), now=NOW + 2700)
    assert ended.state.failure is not None
    assert ended.state.failure.signature == "start-timeout", "the last limit stays"


def test_f15_a_compilation_of_twelve_minutes_is_left_alone() -> None:
    compiling = EngineView(health=None, stage="compile")
    at = loading(stages=(("ranks", NOW),), stage="ranks", started_at=NOW)
    for passed in range(0, 720, 5):
        decision = decide(at, both(compiling), now=NOW + passed)
        at = decision.state
        assert decision.reason == "loading"
    assert "compiling, 12 min so far, and no earlier start says" in decision.sentence


def test_a_warm_up_that_takes_too_long_is_named_and_not_ended() -> None:
    """The first request compiles what the start did not."""
    known = replace(KNOWN, longest=(("ready", 10.0),))
    before = replace(loading(known, stages=(("ready", NOW - 240),), stage="ready"), phase=Phase.WARMUP)
    decision = decide(before, both(EngineView(health=200, stage="ready")))
    assert decision.sentence == (
        "warming up with a real completion: warming up, 4 min so far, it never took more than 10 s"
    )
    assert [kind for kind, _ in decision.events] == ["suspect"]
    assert decision.state.phase is Phase.WARMUP


# ---------------------------------------------------------------------------------------------------------- it learns


def served(before: State, now: float = NOW) -> State:
    decision = decide(replace(before, phase=Phase.WARMUP), both(outcome=answer(WarmUp(1, 60.0), ok=True)), now=now)
    assert decision.state.phase is Phase.SERVE
    return decision.state


def test_what_the_stages_took_is_learned_with_the_first_answer() -> None:
    (times,) = served(loading()).learned
    assert times == StageTimes(
        "", False, (("ranks", 60.0), ("weights", 240.0), ("ready", 0.0)), 300.0, (times.longest,)
    )
    (after,) = served(loading(times, stages=(("ranks", NOW - 90), ("weights", NOW - 80)), started_at=NOW - 90)).learned
    assert dict(after.longest) == {"ranks": 60.0, "weights": 240.0, "ready": 0.0}, "the most that it ever took"
    assert (after.total_s, len(after.recent), dict(after.recent[-1])["weights"]) == (300.0, 2, 80.0)


def test_each_profile_and_cold_and_warm_caches_are_learned_apart() -> None:
    states = [served(loading(launch=Launch(*kind))) for kind in (("", False), ("", True), ("fast", True))]
    assert [(one.learned[0].profile, one.learned[0].warm) for one in states] == [
        ("", False),
        ("", True),
        ("fast", True),
    ]
    known = (StageTimes("", False, (("weights", 100.0),)), StageTimes("", True, (("weights", 30.0),)))
    times = [start_times.longest_s(known, profile, warm, "weights") for profile in ("", "x") for warm in (False, True)]
    assert times == [100.0, 30.0, None, None]
    assert start_times.longest_s(known[:1], "", True, "weights") == 100.0, (
        "a warm start takes no longer than a cold one"
    )
    assert start_times.longest_s(known[1:], "", False, "weights") is None, "a cold one may"


@pytest.mark.parametrize(("warm_digest", "profile", "kind"), [("", None, ("", False)), ("d1", "fast", ("fast", True))])
def test_a_start_knows_from_its_beginning_what_it_is(
    warm_digest: str, profile: str | None, kind: tuple[str, bool]
) -> None:
    before = state(Phase.CLEANUP, cleaned=2, warm_digest=warm_digest)
    decision = decide(before, seen(), replace(UP, profile=profile))
    assert decision.reason == "begin"
    assert (decision.state.launch.profile, decision.state.launch.warm) == kind
    chosen = decide(before, seen(), deployment=replace(DEPLOYMENT, profile="usual"))
    assert chosen.state.launch.profile == "usual"


def test_emptied_caches_are_cold() -> None:
    before = state(Phase.CLEANUP, warm_digest="d1")
    for clean, warm in ((0, "d1"), (3, "")):
        outcome = Outcome(CleanNodes(("spark1", "spark2"), 2, drop_caches=True, swapoff=False, clean=clean), True, NOW)
        after = decide(before, seen(outcome=outcome), Intent(wanted="up", clean=clean)).state
        assert after.warm_digest == warm


def test_a_start_that_was_not_seen_whole_teaches_nothing() -> None:
    """A sparkd that was away for an hour finds the next stage, and would learn that the one before took that hour."""
    late = decide(loading(looked_at=NOW - 700), both(LOADING)).state
    assert late.launch.gapped
    assert served(late).learned == ()
    adopted = decide(state(Phase.ADOPTING, before=Phase.START_HEAD, stages=WEIGHTS), both(LOADING)).state
    assert adopted.launch.gapped
    assert decide(loading(), both(LOADING), now=NOW + 5).state.launch.gapped is False


def test_a_stage_never_goes_back() -> None:
    """Lines scroll out of the part of the log that is read, and titles say less."""
    at = decide(loading(), both(EngineView(health=None, stage="graphs"))).state
    again = decide(at, both(LOADING), now=NOW + 5).state
    assert (again.stage, again.stages) == ("graphs", (*WEIGHTS, ("graphs", NOW)))


def test_what_is_learned_stays_small() -> None:
    known: tuple[StageTimes, ...] = ()
    for profile in range(20):
        for _ in range(10):
            known = start_times.learned(known, f"p{profile}", False, {"weights": 1.0}, 2.0)
    assert (len(known), {len(one.recent) for one in known}) == (start_times.KINDS, {start_times.REMEMBERED})
    assert known[-1].profile == "p19", "the one that was longest ago is forgotten"
