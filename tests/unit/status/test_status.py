"""From a view to the status object: what each field says, and that unknown never looks like down."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from status_world import DS4, LOST, NOW, SERVING, WALL, container, node, view

from sparkd.decide.holds import HEALS
from sparkd.model.config import BrokenDeployment
from sparkd.model.decision import Decision, Failure, FailureClass, Hold, Intent, Phase, Planned, State, Watch
from sparkd.model.launch import Launch
from sparkd.model.machine import Process, Socket
from sparkd.model.outage import Outage
from sparkd.model.sanity import Known, Sanity
from sparkd.model.snapshot import Canary, Container, Snapshot, Unknown
from sparkd.model.start_times import StageTimes
from sparkd.model.view import DaemonFacts, eta_s, node_since, stage_seconds
from sparkd.model.words import AWAITED, awaited, duration, headline, rfc3339
from sparkd.reporting.status import status


def only(found: dict[str, Any]) -> dict[str, Any]:
    [one] = found["deployments"]
    assert isinstance(one, dict)
    return one


def test_f16_what_the_nodes_do_is_shown_while_something_is_suspicious() -> None:
    busy = Watch(canary_failing_since=NOW - 700, canary_failures=5, busy="working", busy_said="x", worked_at=NOW - 15)
    one = only(status(view(replace(SERVING, watch=busy, waiting_w=(("spark1", 119.0),)))))
    assert one["effort"] == {
        "says": "working",
        "text": "x",
        "worked_at": rfc3339(WALL - 15),
        "waiting_w": {"spark1": 119.0},
    }
    assert only(status(view(SERVING)))["effort"] is None


def states(found: dict[str, Any]) -> list[str]:
    return [rank["state"] for rank in only(found)["ranks"]]


def test_a_serving_deployment_has_every_field_of_the_interface() -> None:
    failure = Failure(13, FailureClass.TRANSIENT, "worker-died", "it died", NOW - 1200, WALL - 1200, outage_s=581.0)
    canary = Canary(14, NOW - 31, NOW - 30, ok=True, tokens=1, tokens_per_second=37.1)
    found = status(view(replace(SERVING, failure=failure), canaries={"ds4": canary}, node_since={"spark1": NOW - 50}))
    assert json.loads(json.dumps(found)) == found
    assert {key: found[key] for key in ("schema", "cluster", "at")} == {
        "schema": 1,
        "cluster": "desk",
        "at": "2027-01-15T08:00:00Z",
    }
    daemon = {"version": "0.1.0", "since": "2027-01-15T07:43:21Z", "loop_age_s": 1.2, "read_only_disk": False}
    assert {key: found["daemon"][key] for key in daemon} == daemon
    one = only(found)
    expected = {
        "name": "ds4",
        "wanted": "up",
        "phase": "serve",
        "serving": True,
        "since": "2027-01-15T07:50:00Z",
        "generation": 14,
        "profile": None,
        "sentence": "serving since 03:10",
        "reason": "serving",
        "hold": None,
        "restart_pending": False,
        "next": None,
        "start": None,
        "drift": {"breaks": 0, "slows": 0, "unknown": 0, "benign": 0},
        "checks": {"ok": 0, "warn": 0, "fail": 0, "unknown": 0},
    }
    assert {key: one[key] for key in expected} == expected
    assert one["last_failure"] | {"rank": None, "exit_code": None, "evidence": []} == {
        "generation": 13,
        "class": "transient",
        "signature": "worker-died",
        "text": "it died",
        "at": "2027-01-15T07:40:00Z",
        "outage_s": 581.0,
        "rank": None,
        "exit_code": None,
        "evidence": [],
    }
    row = {"rank": 0, "node": "spark1", "state": "up", "generation": 14, "container": "0abcdef01234", "exit_code": None}
    assert {key: one["ranks"][0][key] for key in row} == row
    assert one["ranks"][0]["evidence_age_s"] == 2.0
    assert found["nodes"][0] == {
        "name": "spark1",
        "state": "ok",
        "since": "2027-01-15T07:59:10Z",
        "why": None,
        "code": None,
        "boot_at": "2027-01-15T05:59:58Z",
        "system": "running",
        "memory": {"total": 128, "free": 20, "available": 90, "page_cache": 70, "shm": 1, "swap_used": 0},
        "memory_alerts": [],
        "maintenance": None,
        "power": None,
    }


def test_an_unread_node_is_unknown_with_why_and_since_and_changes_nothing_of_serving() -> None:
    gone = node("spark2", boot=LOST, memory=LOST, docker=LOST, containers=LOST)
    found = status(view(SERVING, node("spark1", container(0)), gone))
    assert states(found) == ["up", "unknown"]
    assert only(found)["serving"] is True
    rank = only(found)["ranks"][1]
    assert (rank["why"], rank["since"], rank["evidence_age_s"]) == ("no route to host", "2027-01-15T07:58:30Z", 90.0)
    shown = found["nodes"][1]
    assert (shown["state"], shown["why"], shown["code"]) == ("unknown", "no route to host", "unreachable")
    assert (shown["memory"], shown["boot_at"], shown["since"]) == (None, None, "2027-01-15T07:58:30Z")
    assert (
        "spark2 could not be asked for 1 min 30 s (no route to host): unknown, which is not down." in found["verdict"]
    )


def test_before_the_first_look_everything_is_unknown() -> None:
    found = status(view(State(), snapshot=None, decisions={}))
    assert states(found) == ["unknown", "unknown"]
    assert {one["state"] for one in found["nodes"]} == {"unknown"}
    assert only(found)["phase"] == "adopting"


@pytest.mark.parametrize(
    ("there", "phase", "expected"),
    [
        ((), Phase.SERVE, "absent"),
        ((container(1, state="exited", exit_code=137),), Phase.SERVE, "exited"),
        ((container(1, state="dead"),), Phase.SERVE, "exited"),
        ((container(1, state="paused"),), Phase.SERVE, "frozen"),
        ((container(1, state="created"),), Phase.START_WORKERS, "created"),
        ((container(1, state="removing"),), Phase.CLEANUP, "stopping"),
        ((container(1),), Phase.START_HEAD, "starting"),
        ((container(1),), Phase.WARMUP, "starting"),
        ((container(1, generation=13),), Phase.SERVE, "stale"),
        ((container(1, generation=13, state="exited", exit_code=0),), Phase.SERVE, "exited"),
        ((container(1, generation=13), container(1)), Phase.SERVE, "up"),
        ((container(1),), Phase.SERVE, "up"),
    ],
)
def test_a_rank_is_what_its_container_of_this_generation_is(
    there: tuple[Container, ...], phase: Phase, expected: str
) -> None:
    found = status(view(replace(SERVING, phase=phase), node("spark1", container(0)), node("spark2", *there)))
    assert states(found)[1] == expected
    if phase is Phase.SERVE:
        assert only(found)["serving"] is (expected in ("up", "frozen"))


def test_a_worker_whose_head_is_gone_is_widowed() -> None:
    closed = Socket("CLOSE_WAIT", "10.0.0.2", 40000, "10.0.0.1", DS4.master_port, 0, 0, 1)
    found = status(view(SERVING, node("spark1"), node("spark2", container(1), sockets=(closed,))))
    assert states(found) == ["absent", "widowed"]
    assert only(found)["serving"] is False


def test_memory_of_a_rank_is_what_its_processes_hold() -> None:
    mine = [Process(1, 0, 9, "S", 30, "0abcdef0123456789", "vllm"), Process(2, 1, 9, "S", 12, "0abcdef0123456789", "w")]
    other = Process(3, 0, 9, "S", 500, "someone else", "x")
    head = node("spark1", container(0), processes=(*mine, other))
    found = status(view(SERVING, head, node("spark2", processes=LOST)))
    assert [rank["rss_bytes"] for rank in only(found)["ranks"]] == [42, None]


def test_an_engine_that_does_not_answer_does_not_serve_and_is_down_since_its_first_failed_canary() -> None:
    failing = replace(SERVING, watch=Watch(canary_failing_since=NOW - 200, canary_failures=1))
    assert only(status(view(failing)))["serving"] is True, "one proves nothing, however long ago it was sent"
    silent = replace(SERVING, watch=Watch(canary_failing_since=NOW - 200, canary_failures=2))
    one = only(status(view(silent)))
    assert (one["serving"], one["down_since"]) == (False, rfc3339(WALL - 200))


@pytest.mark.parametrize(
    ("watch", "serving"),
    [
        (Watch(canary_failing_since=NOW - 20, canary_failures=1), True),
        (Watch(canary_failing_since=NOW - 20, canary_failures=2), False),
        (Watch(canary_failing_since=NOW - 900, canary_failures=1, gap_until=NOW - 5), True),
        (Watch(canary_failing_since=NOW - 900, canary_failures=2, gap_until=NOW - 5), False),
    ],
    ids=["one", "two", "one before a gap", "two before a gap"],
)
def test_two_canaries_in_a_row_that_failed_are_not_serving(watch: Watch, serving: bool) -> None:
    """Whatever may be done about it, and not by the passing of time alone: nobody looked meanwhile."""
    one = only(status(view(replace(SERVING, watch=watch))))
    assert one["serving"] is serving
    assert one["down_since"] == (None if serving else rfc3339(WALL - (NOW - (watch.canary_failing_since or 0.0))))


@pytest.mark.parametrize(("before", "serving"), [(Phase.SERVE, True), (Phase.HELD, False), (None, False)])
def test_paused_serves_on_if_it_served(before: Phase | None, serving: bool) -> None:
    paused = replace(SERVING, phase=Phase.PAUSED, before=before)
    one = only(status(view(paused, intents={"ds4": Intent(wanted="up", paused=True)})))
    assert (one["serving"], one["paused"], one["phase"]) == (serving, True, "paused")


def test_a_start_under_way_tells_stage_and_eta() -> None:
    state = replace(
        SERVING,
        phase=Phase.START_HEAD,
        serving_since=None,
        stage="load",
        stages=(("ranks", NOW - 70), ("load", NOW - 60)),
    )
    earlier = ({"ranks": 10.0, "load": 200.0, "graphs": 60.0}, {"ranks": 10.0, "load": 220.0, "graphs": 80.0})
    one = only(status(view(state, earlier={"ds4": earlier})))
    assert one["start"] == {
        "stage": "load",
        "stage_since": rfc3339(WALL - 60),
        "eta_s": 150.0 + 70.0,
        "suspect": None,
        "stages": [
            {"name": "ranks", "started_at": rfc3339(WALL - 70), "seconds": 10.0},
            {"name": "load", "started_at": rfc3339(WALL - 60), "seconds": None},
        ],
    }


LEARNED = (
    StageTimes("", False, (("load", 70.0), ("graphs", 30.0)), 110.0, ((("load", 60.0), ("graphs", 30.0)),)),
    StageTimes("", True, (("load", 20.0), ("graphs", 5.0)), 30.0, ((("load", 20.0), ("graphs", 5.0)),)),
)


@pytest.mark.parametrize(
    ("launch", "lasted_s", "eta_s", "suspect"),
    [
        (Launch(), 50.0, 10.0 + 30.0, None),
        (Launch(), 211.0, None, {"stage": "load", "seconds": 211.0, "longest_s": 70.0, "limit_s": 210.0}),
        (Launch(warm=True), 15.0, 5.0 + 5.0, None),
        (Launch(warm=True), 61.0, None, {"stage": "load", "seconds": 61.0, "longest_s": 20.0, "limit_s": 60.0}),
        (Launch(profile="big"), 100.0, 150.0, None),
        (Launch(profile="big"), 181.0, None, {"stage": "load", "seconds": 181.0, "longest_s": None, "limit_s": 180.0}),
    ],
)
def test_a_start_goes_by_what_was_learned_of_its_kind(
    launch: Launch, lasted_s: float, eta_s: float | None, suspect: dict[str, Any] | None
) -> None:
    """Of a kind that was never started, history tells how long it takes and not how long it may take."""
    state = replace(
        SERVING,
        phase=Phase.START_HEAD,
        stage="load",
        stages=(("load", NOW - lasted_s),),
        launch=launch,
        learned=LEARNED,
    )
    found = only(status(view(state, earlier={"ds4": ({"load": 250.0},)})))["start"]
    assert (found["eta_s"], found["suspect"]) == (eta_s, suspect)


@pytest.mark.parametrize("phase", [Phase.PRECHECK, Phase.CLEANUP])
def test_before_the_ranks_are_started_the_stages_of_the_last_generation_are_not_shown(phase: Phase) -> None:
    state = replace(SERVING, phase=phase, stages=(("ranks", NOW - 700), ("ready", NOW - 600)))
    start = only(status(view(state, earlier={"ds4": ({"ranks": 10.0, "load": 20.0},)})))["start"]
    assert (start["stage"], start["stages"], start["eta_s"]) == (None, [], 30.0)


@pytest.mark.parametrize(
    ("stages", "earlier", "expected"),
    [
        ((), (), None),
        ((), ({"a": 10.0, "b": 20.0},), 30.0),
        ((("a", 95.0),), ({"a": 10.0, "b": 20.0},), 25.0),
        ((("a", 50.0), ("b", 70.0)), ({"a": 10.0, "b": 20.0},), 0.0),
        ((("a", 95.0),), ({"a": 1.0}, {"a": 9.0, "b": 4.0}, {"a": 100.0, "b": 6.0}), 4.0 + 5.0),
        ((("new", 95.0),), ({"a": 10.0, "b": 20.0},), 25.0),
    ],
)
def test_eta(stages: tuple[tuple[str, float], ...], earlier: tuple[dict[str, float], ...], expected: float) -> None:
    assert eta_s(stages, 100.0, earlier) == expected


def test_stage_seconds_add_up() -> None:
    assert stage_seconds((("a", 1.0), ("b", 3.0), ("a", 4.0)), 10.0) == {"a": 8.0, "b": 1.0}
    assert stage_seconds((), 10.0) == {}


def test_a_hold_and_a_planned_restart_are_shown() -> None:
    hold = Hold(FailureClass.PERMANENT, "image:spark2:x", "image x is missing on spark2", "docker pull x", True)
    one = only(status(view(replace(SERVING, phase=Phase.HELD, hold=hold))))
    assert one["hold"] == {
        "class": "permanent",
        "fact": "image:spark2:x",
        "text": "image x is missing on spark2",
        "fix": "docker pull x",
        "heals_itself": True,
        "awaits": "spark2 has its image; sparkd keeps looking",
    }
    waiting = replace(SERVING, phase=Phase.BACKOFF)
    decision = Decision(waiting, (), "rank 1 is gone", "failed", next=Planned(NOW + 250, "group restart"))
    one = only(status(view(waiting, decisions={"ds4": decision})))
    assert one["next"] == {"at": rfc3339(WALL + 250), "what": "group restart"}
    assert one["hold"] is None


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ("port:spark1:8000", "its port on spark1 is free; sparkd keeps looking"),
        ("mount:spark2:/models", "what it mounts is there on spark2; sparkd keeps looking"),
        ("check:spark2:ghost-path", "the check `ghost-path` passes on spark2; sparkd keeps looking"),
        ("check::flags", "the check `flags` passes; sparkd keeps looking"),
        (
            "exit:127",
            "its file (`sparkd ctl reload` reads it) or its image has changed; fixed elsewhere: `sparkd ctl release ds4`",
        ),
    ],
)
def test_a_hold_that_heals_itself_says_what_it_awaits(fact: str, words: str) -> None:
    assert awaited(fact, "ds4") == words


def test_every_fact_that_heals_has_its_words() -> None:
    assert {*AWAITED, "exit", "check"} == set(HEALS)


def test_the_reason_given_for_a_pause_is_shown() -> None:
    paused = replace(SERVING, phase=Phase.PAUSED)
    decision = Decision(paused, (), "paused by milo: observing only", "paused")
    shown = view(paused, decisions={"ds4": decision}, intents={"ds4": Intent("up", paused=True, message="new cable")})
    assert only(status(shown))["sentence"] == "paused by milo: observing only (reason: new cable)"
    said = replace(shown, decisions={"ds4": replace(decision, sentence="paused by milo: new cable")})
    assert only(status(said))["sentence"] == "paused by milo: new cable"


def test_a_broken_file_is_held_with_every_problem() -> None:
    broken = BrokenDeployment(name="ds4", file="ds4.yaml", problems=("ds4.yaml:3: port: no number", "ds4.yaml:9: x: y"))
    found = status(view(SERVING, deployments=(broken,)))
    one = only(found)
    assert (one["phase"], one["serving"], one["hold"]["class"], one["hold"]["fact"]) == (
        "held",
        False,
        "permanent",
        "config",
    )
    for problem in broken.problems:
        assert problem in one["hold"]["text"]
    assert "(and 1 more)" in one["sentence"]
    assert [rank["node"] for rank in one["ranks"]] == ["spark1", "spark2"]
    assert "ds4 is NOT serving, held: its file" in found["verdict"]


@pytest.mark.parametrize(
    ("digest", "phase", "pending"),
    [("d1", Phase.SERVE, False), ("old", Phase.SERVE, True), ("", Phase.SERVE, False), ("old", Phase.STOPPED, False)],
)
def test_a_changed_file_of_a_running_deployment_is_pending(digest: str, phase: Phase, pending: bool) -> None:
    assert only(status(view(replace(SERVING, digest=digest, phase=phase))))["restart_pending"] is pending


def test_a_wall_clock_from_another_age_breaks_nothing() -> None:
    for wall in (-1e12, 0.0, 1e15):
        json.dumps(status(replace(view(), wall=wall)))


def test_nodes_remember_since_when_they_answer() -> None:
    first = Snapshot(100.0, 0.0, {"spark1": node("spark1")})
    lost = Unknown("gone", 103.0)
    silent = Snapshot(110.0, 0.0, {"spark1": node("spark1", boot=lost)})
    since = node_since(None, first, {})
    assert since == {"spark1": 100.0}
    assert node_since(first, replace(first, at=105.0), since) == {"spark1": 100.0}
    assert node_since(first, silent, since) == {"spark1": 103.0}
    assert node_since(silent, replace(first, at=120.0), {"spark1": 103.0}) == {"spark1": 120.0}


# ---------------------------------------------------------------------------------------------------------- in words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (250, "4 min 10 s"), (13800, "3 h 50 min"), (187200, "2 d 4 h")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def say(state: State, wanted: str = "up", **more: Any) -> str:
    return str(status(view(state, intents={"ds4": Intent(wanted=wanted)}, **more))["verdict"])


def test_the_verdict_names_what_matters_first() -> None:
    assert say(SERVING) == "ds4 is serving, for 10 min now."
    assert say(SERVING, deployments=()) == "No deployment is configured."
    old = DaemonFacts(version="1", since_wall=0.0, loop_age_s=95.0, read_only_disk=True)
    words = say(SERVING, daemon=old)
    assert words.startswith("sparkd itself has not looked for 1 min 35 s")
    assert "The journal cannot be written" in words
    lost = Outage(NOW - 42, WALL - 42, 14, "rank-gone", "rank 1 is gone", "transient")
    waiting = replace(SERVING, phase=Phase.BACKOFF, outage=lost)
    decision = Decision(waiting, (), "rank 1 is gone", "failed", next=Planned(NOW + 250, "group restart"))
    assert say(waiting, decisions={"ds4": decision}) == (
        "ds4 is NOT serving for 42 s: rank 1 is gone. Next: group restart in 4 min 10 s."
    )
    hold = Hold(FailureClass.HARDWARE, "gpu:spark2", "the GPU of spark2 is gone", "power-cycle spark2", False)
    assert say(replace(SERVING, phase=Phase.HELD, hold=hold), decisions={}) == (
        "ds4 is NOT serving, held: the GPU of spark2 is gone."
    )
    stopped = replace(SERVING, phase=Phase.STOPPED)
    assert "being stopped" in say(stopped, "stopped")
    empty = Snapshot(NOW, WALL, {one: node(one) for one in ("spark1", "spark2")})
    assert say(stopped, "stopped", snapshot=empty) == "ds4 is stopped, as wanted."
    starting = replace(SERVING, phase=Phase.START_HEAD, stage="load", stages=(("load", NOW),))
    late = replace(starting, stages=(("load", NOW - 240),), learned=LEARNED)
    assert say(late) == (
        "ds4 is NOT serving: it is starting (load), which takes too long: 4 min so far, never more than 1 min 10 s before."
    )
    assert say(replace(late, learned=())).endswith("which takes too long: 4 min so far, never seen to end before.")
    assert say(starting, earlier={"ds4": ({"load": 250.0},)}) == (
        "ds4 is NOT serving: it is starting (load), about 4 min 10 s to go."
    )


def test_nonsense_is_not_serving_and_shown_beside_what_made_sense() -> None:
    good = Known("lantern 4729 copper. Paris.", WALL - 7200, 12)
    asked = Sanity(14, NOW - 5, 2, NOW - 20, "'!' again and again", "!!!!!!!!", WALL - 5, good)
    known = {"text": "lantern 4729 copper. Paris.", "at": "2027-01-15T06:00:00Z", "generation": 12}
    lost = Outage(NOW - 20, WALL - 20, 14, "nonsense", "answers nonsense")
    broken = replace(SERVING, sanity=asked, outage=lost)
    one = only(status(view(broken)))
    assert (one["serving"], one["down_since"]) == (False, "2027-01-15T07:59:40Z")
    assert one["sanity"] == {
        "ok": False,
        "at": "2027-01-15T07:59:55Z",
        "text": "!!!!!!!!",
        "why": "'!' again and again",
        "in_a_row": 2,
        "known_good": known,
    }
    decision = Decision(broken, (), "answers nonsense: …", "nonsense")
    assert say(broken, decisions={"ds4": decision}) == "ds4 is NOT serving for 20 s: it answers nonsense: …."
    assert only(status(view(replace(SERVING, sanity=replace(asked, bad=1)))))["serving"], "one alone is asked again"
    other = only(status(view(replace(SERVING, generation=15, sanity=asked))))["sanity"]
    assert other == {"ok": None, "at": None, "text": None, "why": None, "in_a_row": 0, "known_good": known}
    assert only(status(view(SERVING)))["sanity"] is None


def test_the_verdict_covers_several_deployments() -> None:
    other = replace(DS4, name="qwen", nodes=("spark1",))
    found = view(
        deployments=(DS4, other),
        states={"ds4": SERVING, "qwen": replace(SERVING, phase=Phase.ADOPTING)},
        intents={"ds4": Intent(wanted="up"), "qwen": Intent(wanted="up")},
    )
    words = headline(status(found))
    assert words == (
        "qwen is being looked at; nothing is changed until it is clear what runs. ds4 is serving, for 10 min now."
    )
