"""Which changes between two statuses are told, and that each is told once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from status_world import NOW, SERVING, WALL, container, node, view

from sparkd.decide.sanity import words
from sparkd.model.config import BrokenDeployment, Notify
from sparkd.model.decision import Cause, Decision, Failure, FailureClass, Hold, Intent, Phase, State, Watch
from sparkd.model.outage import Outage
from sparkd.model.sanity import Known, Sanity
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.reporting.metrics import Counters
from sparkd.reporting.notices import Notification, Notifier, edges
from sparkd.reporting.status import status

FAILURE = Failure(14, FailureClass.TRANSIENT, "rank-gone", "rank 1 is gone", NOW, WALL)
LOST = Outage(NOW - 5, WALL - 5, 14, "rank-gone", "rank 1 is gone", "transient")
OVER = replace(LOST, ended=NOW + 576, ended_wall=WALL + 576, answered=15)
FAILED = replace(SERVING, phase=Phase.BACKOFF, failure=FAILURE, cause=Cause.CRASH, outage=LOST)
AGAIN = replace(
    SERVING,
    generation=15,
    cause=Cause.CRASH,
    failure=replace(FAILURE, outage_s=581.0),
    last_outage=OVER,
    serving_since_wall=WALL,
)
HOLD = Hold(FailureClass.PERMANENT, "exit:127", "the file is not there", "install it", False)
UP, STOPPED, PAUSED = Intent(wanted="up"), Intent(wanted="stopped"), Intent(wanted="up", paused=True)


def shown(state: State, intent: Intent = UP, **more: Any) -> dict[str, Any]:
    said, reason = state.sentence or f"it is {state.phase}", state.reason or f"reason-{state.phase}"
    decision = Decision(state, (), said, reason)
    ranks = (node("spark1", container(0, state.generation)), node("spark2", container(1, state.generation)))
    return status(view(state, *ranks, intents={"ds4": intent}, decisions={"ds4": decision}, **more))


def story(*statuses: dict[str, Any]) -> list[Notification]:
    """Everything that is told along the way."""
    return [note for before, after in pairwise(statuses) for note in edges(before, after)]


def kinds(*statuses: dict[str, Any]) -> list[str]:
    return [note.kind for note in story(*statuses)]


def phases(state: State, *names: Phase) -> Iterator[dict[str, Any]]:
    for name in names:
        yield shown(replace(state, phase=name))


RESTART = (Phase.PRECHECK, Phase.CLEANUP, Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP)


def test_a_crash_is_told_once_and_so_is_its_end() -> None:
    down, recovered = story(shown(SERVING), shown(FAILED), *phases(FAILED, *RESTART), shown(AGAIN), shown(AGAIN))
    assert (down.kind, down.deployment, down.cls, down.signature, down.generation) == (
        "down",
        "ds4",
        "transient",
        "rank-gone",
        14,
    )
    assert "rank 1 is gone" in down.sentence
    assert (recovered.kind, recovered.outage_s, recovered.generation) == ("recovered", 581.0, 15)
    assert recovered.sentence == "ds4 serves again after 9 min 41 s."


def test_failing_again_and_again_is_one_outage() -> None:
    second = replace(FAILED, generation=15, failure=replace(FAILURE, generation=15, text="again"))
    assert kinds(
        shown(SERVING), shown(FAILED), *phases(FAILED, *RESTART), shown(second), *phases(second, *RESTART), shown(AGAIN)
    ) == ["down", "recovered"]


def test_what_a_person_does_is_no_news() -> None:
    restarting = replace(SERVING, phase=Phase.CLEANUP, cause=Cause.OPERATOR, outage=replace(LOST, code="operator"))
    again = replace(SERVING, generation=15, cause=Cause.OPERATOR)
    assert kinds(shown(SERVING), shown(restarting), *phases(restarting, *RESTART), shown(again)) == []
    stopping = replace(SERVING, phase=Phase.STOPPED)
    assert kinds(shown(SERVING), shown(stopping, STOPPED), shown(stopping, STOPPED)) == []
    paused = replace(SERVING, phase=Phase.PAUSED, before=Phase.SERVE)
    assert kinds(shown(SERVING), shown(paused, PAUSED), shown(SERVING)) == []


def test_a_start_that_a_person_asked_for_and_that_fails_is_told() -> None:
    starting = replace(State(), phase=Phase.START_HEAD, cause=Cause.OPERATOR, generation=1)
    failed = replace(FAILED, generation=1)
    assert kinds(shown(starting), shown(failed), *phases(failed, *RESTART), shown(AGAIN)) == ["down", "recovered"]


def test_a_stop_in_the_middle_of_an_outage_ends_the_story_without_a_recovery() -> None:
    stopped = replace(FAILED, phase=Phase.STOPPED, outage=None, last_outage=OVER)
    started = replace(stopped, phase=Phase.PRECHECK, cause=Cause.OPERATOR, failure=None)
    assert kinds(shown(SERVING), shown(FAILED), shown(stopped, STOPPED), shown(started), shown(SERVING)) == ["down"]


def test_a_reboot_of_a_node_is_down_and_recovered_with_the_time_between() -> None:
    lost = replace(LOST, began=NOW - 100, code="rebooted", text="spark2 rebooted")
    rebooted = replace(SERVING, phase=Phase.PRECHECK, cause=Cause.BOOT, outage=lost)
    over = replace(lost, ended=NOW + 300, ended_wall=WALL + 300, answered=15)
    served = replace(SERVING, generation=15, cause=Cause.BOOT, last_outage=over)
    down, recovered = story(shown(SERVING), shown(rebooted), *phases(rebooted, *RESTART), shown(served))
    assert (down.kind, recovered.kind, recovered.outage_s) == ("down", "recovered", 400.0)


def test_an_engine_that_answers_again_without_a_restart_recovers_by_its_own_record() -> None:
    """It has served since ten minutes ago, and an older failure is told: neither says how long this one lasted."""
    older = replace(SERVING, failure=replace(FAILURE, outage_s=581.0), last_outage=OVER)
    lost = replace(LOST, began=NOW - 200, code="not-answering")
    failing = replace(older, outage=lost, watch=Watch(canary_failing_since=NOW - 200, canary_failures=3))
    over = replace(lost, ended=NOW - 20, ended_wall=WALL - 20, answered=14)
    down, recovered = story(shown(older), shown(failing), shown(replace(older, last_outage=over)))
    assert (down.kind, recovered.kind, recovered.outage_s) == ("down", "recovered", 180.0)


def test_an_outage_is_not_recovered_from_by_an_adoption_but_by_the_answer_after_it() -> None:
    adopting = replace(FAILED, phase=Phase.ADOPTING, before=Phase.SERVE)
    adopted = replace(FAILED, phase=Phase.SERVE, generation=14)
    assert not shown(adopted)["deployments"][0]["serving"]
    assert kinds(shown(FAILED), shown(adopting), shown(adopted)) == []
    assert kinds(shown(adopted), shown(AGAIN)) == ["recovered"]


def test_what_nobody_could_tell_is_no_news() -> None:
    unread = replace(SERVING, outage=replace(LOST, code="unread", unread_since=NOW - 5))
    over = replace(LOST, code="unread", unread_s=25.0, ended=NOW + 20, ended_wall=WALL + 20, answered=14)
    assert shown(unread)["deployments"][0]["serving"]
    assert kinds(shown(SERVING), shown(unread), shown(replace(SERVING, last_outage=over))) == []


def test_a_suspected_engine_is_down_before_anything_is_done_about_it() -> None:
    suspected = replace(SERVING, watch=Watch(canary_failing_since=NOW - 200, canary_failures=2))
    assert kinds(shown(SERVING), shown(suspected), shown(SERVING)) == ["down", "recovered"]
    assert kinds(shown(SERVING), shown(suspected), shown(FAILED), shown(AGAIN)) == ["down", "recovered"]


def test_requests_that_fail_are_told_although_nothing_may_be_done() -> None:
    """The fabric was cut for three minutes, the peer unknown: sparkd went on saying that it serves."""
    said = "not answering: 2 canaries in a row failed, the first 40 s ago; spark2 is unknown (unreachable)"
    failing = replace(SERVING, watch=Watch(canary_failing_since=NOW - 40, canary_failures=2), sentence=said)
    failing = replace(failing, reason="not-answering")
    down, recovered = story(shown(SERVING), shown(failing), shown(failing), shown(SERVING))
    assert (down.kind, down.signature, recovered.kind) == ("down", "not-answering", "recovered")
    assert down.sentence == f"ds4 does not serve: {said}."


def test_nonsense_is_told_with_both_texts_and_what_to_do() -> None:
    good = Known("lantern 4729 copper. Paris.", WALL - 7200, 14)
    asked = Sanity(14, NOW - 5, 2, NOW - 20, "'!' again and again", "!!!!!!!!!!!!!!!!", WALL - 5, good)
    lost = replace(LOST, began=NOW - 20, code="nonsense")
    broken = replace(SERVING, sanity=asked, outage=lost, reason="nonsense")
    broken = replace(broken, sentence=words(broken))
    over = replace(lost, ended=NOW - 1, ended_wall=WALL - 1, answered=14)
    sane = replace(SERVING, sanity=replace(asked, bad=0), last_outage=over)
    down, recovered = story(shown(SERVING), shown(broken), shown(broken), shown(sane))
    assert (down.kind, down.signature, recovered.kind, recovered.outage_s) == ("down", "nonsense", "recovered", 19.0)
    assert down.sentence == (
        "ds4 does not serve: answers nonsense: '!' again and again: \"!!!!!!!!!!!!!!!!\"; when it was well "
        '(2027-01-15T06:00:00Z, generation 14): "lantern 4729 copper. Paris.".'
    )
    assert down.fix is not None
    assert "sparkd ctl drift ds4" in down.fix


def test_a_restart_of_sparkd_itself_is_no_news() -> None:
    adopting = replace(SERVING, phase=Phase.ADOPTING, before=Phase.SERVE)
    assert kinds(shown(SERVING), shown(adopting), shown(SERVING)) == []
    crashed = replace(adopting, cause=Cause.CRASH, failure=replace(FAILURE, outage_s=3.0))
    assert kinds(shown(AGAIN), shown(crashed), shown(AGAIN)) == []
    down = replace(FAILED, phase=Phase.ADOPTING, before=Phase.BACKOFF)
    assert kinds(shown(SERVING), shown(FAILED), shown(down), shown(FAILED), shown(AGAIN)) == ["down", "recovered"]
    held = replace(FAILED, phase=Phase.HELD, hold=HOLD)
    looking = replace(held, phase=Phase.ADOPTING, before=Phase.HELD)
    assert kinds(shown(FAILED), shown(held), shown(looking), shown(held)) == ["held"]
    assert edges(None, shown(SERVING)) == ()
    assert edges(None, shown(FAILED)) == ()


def test_a_pause_in_an_outage_does_not_tell_it_again() -> None:
    paused = replace(FAILED, phase=Phase.PAUSED, before=Phase.BACKOFF)
    looking = replace(FAILED, phase=Phase.ADOPTING)
    assert kinds(shown(SERVING), shown(FAILED), shown(paused, PAUSED), shown(looking), shown(FAILED)) == ["down"]


def test_a_used_up_hour_is_told_once_with_what_starts_it_at_once() -> None:
    said = (
        "rank 1 on spark2 exited; 5 automatic starts in the last 60 min, the limit is 5; restarting the group in 20 min"
    )
    full = replace(
        FAILED, phase=Phase.BACKOFF, sentence=said, reason="budget-pause", cause=Cause.CRASH, starts=(NOW,) * 5
    )
    unread = replace(full, reason="node-unknown")
    adopting = replace(full, phase=Phase.ADOPTING, before=Phase.BACKOFF, reason="node-unknown")
    assert kinds(shown(FAILED), shown(full), shown(unread), shown(full), shown(adopting), shown(full)) == ["budget"]
    (note,) = edges(shown(FAILED), shown(full))
    assert note.sentence == f"ds4 waits: {said}."
    assert note.fix == "sparkd ctl why ds4; sparkd ctl release ds4 starts it at once"


def test_giving_up_is_told_with_the_fix() -> None:
    held = replace(FAILED, phase=Phase.HELD, hold=HOLD)
    down, note = story(shown(SERVING), shown(held), shown(held))
    assert (down.kind, note.kind, note.cls, note.signature, note.fix) == (
        "down",
        "held",
        "permanent",
        "exit:127",
        "install it",
    )
    other = replace(held, hold=replace(HOLD, fact="budget", text="5 starts in an hour"))
    assert kinds(shown(held), shown(other)) == ["held"]


def test_a_broken_file_is_told_at_once() -> None:
    broken = BrokenDeployment(name="ds4", file="ds4.yaml", problems=("ds4.yaml:3: no",))
    [note] = edges(None, shown(State(), deployments=(broken,)))
    assert (note.kind, note.signature) == ("held", "config")


def silent(since: float, at: float) -> dict[str, Any]:
    lost = Unknown("no route to host", since, "unreachable")
    seen = {"spark1": node("spark1", container(0)), "spark2": node("spark2", boot=lost, containers=lost)}
    wall = WALL - NOW + at
    return status(replace(view(SERVING), at=at, wall=wall, snapshot=Snapshot(at, wall, seen)))


def answering(at: float) -> dict[str, Any]:
    return status(replace(view(SERVING), at=at, wall=WALL - NOW + at))


def test_a_node_is_lost_after_a_minute_and_back_when_it_answers() -> None:
    looks = [silent(NOW + 1, NOW + 5 * n) for n in range(1, 40)]
    lost, back = story(answering(NOW), *looks, answering(NOW + 200), answering(NOW + 205))
    assert (lost.kind, lost.node, lost.deployment, lost.signature) == ("node_lost", "spark2", None, "unreachable")
    assert lost.at == silent(NOW + 1, NOW + 65)["at"]
    assert "no route to host" in lost.sentence
    assert (back.kind, back.outage_s) == ("node_back", 199.0)


def test_a_node_that_flaps_is_no_news() -> None:
    looks = [answering(NOW)]
    for round_ in range(5):
        began = NOW + 100 * round_
        looks += [silent(began, began + 5), silent(began, began + 55), answering(began + 60)]
    assert kinds(*looks) == []


def test_the_body_has_every_field_of_the_interface() -> None:
    note = Notification(kind="test", cluster="desk", at="2027-01-15T08:00:00Z", sentence="A test.")
    assert note.body() == (
        b'{"schema": 1, "kind": "test", "cluster": "desk", "at": "2027-01-15T08:00:00Z", "sentence": "A test.", '
        b'"deployment": null, "node": null, "signature": null, "generation": null, "outage_s": null, "fix": null, '
        b'"class": null}'
    )


@pytest.mark.parametrize(("quiet_s", "waiting"), [(3600.0, 3), (0.0, 4)])
async def test_the_same_hold_is_not_told_again_within_the_hour(quiet_s: float, waiting: int) -> None:
    """A port that is taken, free and taken again is one story."""
    one = Notifier(Notify(exec=("/bin/true",)), Counters(), quiet_s=quiet_s)
    held = Notification(kind="held", cluster="desk", at="", sentence="", deployment="ds4", signature="port:spark1:80")
    for note in (held, held, replace(held, signature="budget"), replace(held, kind="down")):
        one.offer(note)
    assert one.waiting == {"exec-1": waiting}
    one.close()
