"""`ctl maintenance` and `ctl nodes power-cycle`: what they say, ask, send and answer, and what the screens show of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ctl_daemon import Json, daemon, error, on_terminal, sparkd
from ctl_scenes import deployment, node, rank, serving, status

PLANNED = {
    "since": "2026-11-27T07:00:02Z",
    "until": "2026-11-27T08:00:02Z",
    "by": "milo",
    "message": "new firmware",
}
HOLD = {
    "class": "operator",
    "fact": "maintenance:spark2",
    "text": "spark2 is under maintenance by milo: new firmware",
    "fix": "sparkd ctl maintenance spark2 --end",
    "heals_itself": True,
    "awaits": "the maintenance of spark2 is over: after its next boot, or at its time; sparkd keeps looking",
}
BEGUN: Json = {
    "schema": 1,
    "node": "spark2",
    "sentence": "the maintenance of spark2 begins",
    "deployments": [{"name": "ds4-flash", "what": "is stopped meanwhile"}],
}
MAINTENANCE, POWER, CYCLE = (f"/api/v1/nodes/spark2/{one}" for one in ("maintenance", "power", "power-cycle"))


def under(*, up: bool = False, **more: Any) -> Json:
    state = "up" if up else "absent"
    ranks = [rank(number, name, state=state) for number, name in enumerate(("spark1", "spark2"))]
    held = {"phase": "serve", "reason": "draining"} if up else {"phase": "held", "reason": "maintenance", "hold": HOLD}
    group = deployment(serving=False, sentence="held: it is planned", ranks=ranks, **held)
    return status(group, nodes=[node("spark1"), node("spark2", maintenance=PLANNED, **more)])


def test_it_is_asked_for_by_node_with_its_time_and_its_reason() -> None:
    with daemon(serving()) as served:
        served.answers[MAINTENANCE] = BEGUN
        done = sparkd(
            served.socket_path, "ctl", "maintenance", "spark2", "--for", "1h30min", "-y", "-m", "new firmware"
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert served.posted == [(MAINTENANCE, {"message": "new firmware", "for_s": 5400.0})]
        assert "The maintenance of spark2 begins" in done.stdout
        assert "ds4-flash: is stopped meanwhile" in done.stdout
        done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--json", "--yes")
        assert json.loads(done.stdout) == BEGUN
        assert served.posted[-1] == (MAINTENANCE, {"message": ""}), "without a time the daemon's own counts"


@pytest.mark.parametrize(
    ("typed", "seconds"), [("90", 90.0), ("90s", 90.0), ("90min", 5400.0), ("2d", 172800.0), ("0.5h", 1800.0)]
)
def test_times_as_people_write_them(typed: str, seconds: float) -> None:
    with daemon(serving()) as served:
        served.answers[MAINTENANCE] = BEGUN
        assert sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--for", typed, "-y").returncode == 0
        assert served.posted[0][1]["for_s"] == seconds


@pytest.mark.parametrize("typed", ["", "soon", "1x", "0", "-1h", "40d", "1h soon", "9999999999"])
def test_a_time_that_is_none_is_refused_with_what_to_write(typed: str) -> None:
    with daemon(serving()) as served:
        done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", f"--for={typed}", "-y")
        assert (done.returncode, served.posted) == (2, [])
        assert "such as 90min, 1h or 2d" in done.stderr


def test_it_says_what_it_stops_and_asks_first() -> None:
    with daemon(serving()) as served:
        served.answers[MAINTENANCE] = BEGUN
        refused = sparkd(served.socket_path, "ctl", "maintenance", "spark2")
        assert (refused.returncode, served.posted) == (2, [])
        assert "add --yes" in refused.stderr
        seen = on_terminal(served.socket_path, "ctl", "maintenance", "spark2", "--for", "1h", typed="n\n")
        said = " ".join(seen.text.split())
        assert (seen.code, served.posted) == (2, [])
        assert "Begin planned work on spark2: drain and stop ds4-flash, on all of its nodes." in said
        assert "ds4-flash is serving since 03:10 (3 h 50 min ago)." in said
        assert "after the next boot of spark2, and in 1 h at the latest." in said


def test_a_dry_run_changes_nothing() -> None:
    paused = status(deployment(paused=True, phase="paused"))
    for scene, words in (
        (serving(), "would begin planned work on spark2: drain and stop ds4-flash, on all of its nodes."),
        (paused, "ds4-flash is paused: sparkd stops nothing of it, and its ranks die with a reboot."),
    ):
        with daemon(scene) as served:
            done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--dry-run")
            assert (done.returncode, served.posted) == (0, [])
            assert words in " ".join(done.stdout.split())
            told = json.loads(sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--dry-run", "--json").stdout)
            assert (told["verb"], told["node"], told["dry_run"]) == ("maintenance", "spark2", True)


def test_its_end_is_not_asked_about() -> None:
    with daemon(under()) as served:
        served.answers[MAINTENANCE] = {**BEGUN, "sentence": "over"}
        done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--end", "-m", "done")
        assert (done.returncode, served.posted) == (0, [(MAINTENANCE, {"message": "done", "end": True})])
        said = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--end", "--dry-run").stdout
        assert "would end the maintenance of spark2, and start ds4-flash." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("spark3",), "did you mean spark2?"),
        (("spark2", "--end", "--for", "1h"), "leave one of them out"),
        (("spark2", "--end", "--wait"), "leave one of them out"),
        (("spark2", "--timeout", "3"), "add --wait"),
        ((), "NODE"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], said: str) -> None:
    with daemon(serving()) as served:
        done = sparkd(served.socket_path, "ctl", "maintenance", *words, "-y")
        assert (done.returncode, served.posted) == (2, [])
        assert said in done.stderr


def test_wait_ends_when_nothing_runs_there_and_not_before() -> None:
    with daemon(serving(), serving(), under(up=True), under(up=True), under()) as served:
        served.answers[MAINTENANCE] = BEGUN
        done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--wait", "-y")
        assert done.returncode == 0
        assert "ds4-flash is draining, 2 ranks still up" in done.stderr
        assert "Nothing of sparkd's runs on spark2 any more." in done.stdout
    with daemon(under(up=True)) as served:
        served.answers[MAINTENANCE] = BEGUN
        done = sparkd(served.socket_path, "ctl", "maintenance", "spark2", "--wait", "--timeout", "0", "-y", "--json")
        assert (done.returncode, json.loads(done.stdout)["stopped"]) == (6, False)


def test_what_the_screens_show_meanwhile() -> None:
    with daemon(under()) as served:
        done = sparkd(served.socket_path, "ctl", "status")
        assert done.returncode == 4, "wanted up, and it does not serve"
        assert done.stdout.startswith("ds4-flash is stopped for the maintenance of spark2.")
        assert "goes on by itself when the maintenance of spark2 is over" in " ".join(done.stdout.split())
        shown = sparkd(served.socket_path, "ctl", "nodes").stdout
        assert "planned" in shown
        words = "under maintenance until 08:00:02 (in 59 min) or its next boot, asked by milo: new firmware"
        assert words in " ".join(shown.split())
        assert (
            json.loads(sparkd(served.socket_path, "ctl", "nodes", "--json").stdout)["nodes"][1]["maintenance"]
            == PLANNED
        )


# ------------------------------------------------------------------------------------------------------- power cycling

KNOWN: Json = {
    "schema": 1,
    "node": "spark2",
    "would": "POST http://plug/relay/0?turn=off&timer=10",
    "timeout_s": 30.0,
    "auto": False,
    "again_at": None,
    "answers": False,
    "deployments": [],
    "uses": [],
}
DONE: Json = {"schema": 1, "node": "spark2", "at": "2026-11-27T07:01:02Z", "ok": True, "text": "HTTP 200"}


def test_a_power_cycle_says_what_it_does_asks_and_tells_how_it_ended() -> None:
    with daemon(serving()) as served:
        served.answers = {POWER: {**KNOWN, "answers": True}, CYCLE: DONE}
        seen = on_terminal(served.socket_path, "ctl", "nodes", "power-cycle", "spark2", typed="y\n")
        said = " ".join(seen.text.split())
        assert seen.code == 0
        assert "Power-cycle spark2: POST http://plug/relay/0?turn=off&timer=10." in said
        assert "But spark2 answers right now: `sparkd ctl maintenance spark2` stops what runs there in order" in said
        assert "What runs there dies at once: ds4-flash." in said
        assert "The power of spark2 was taken and given back (HTTP 200)." in said
        assert served.posted == [(CYCLE, {"message": ""})]


@pytest.mark.parametrize(("ok", "text", "code"), [(True, "exit code 0", 0), (False, "exit code 3: no such outlet", 1)])
def test_its_exit_code_is_that_of_the_hook(ok: bool, text: str, code: int) -> None:
    with daemon(serving()) as served:
        served.answers = {POWER: KNOWN, CYCLE: {**DONE, "ok": ok, "text": text}}
        words = ("ctl", "nodes", "power-cycle", "spark2", "-y", "--force", "-m", "no SSH")
        done = sparkd(served.socket_path, *words)
        assert done.returncode == code
        assert text in done.stdout
        assert served.posted == [(CYCLE, {"message": "no SSH", "force": True})]
        assert json.loads(sparkd(served.socket_path, *words, "--json").stdout)["text"] == text


def test_without_a_terminal_and_yes_no_power_is_taken_and_a_dry_run_takes_none() -> None:
    with daemon(serving()) as served:
        served.answers = {POWER: {**KNOWN, "again_at": "2026-11-27T12:00:00Z"}, CYCLE: DONE}
        assert sparkd(served.socket_path, "ctl", "nodes", "power-cycle", "spark2").returncode == 2
        done = sparkd(served.socket_path, "ctl", "nodes", "power-cycle", "spark2", "--dry-run")
        assert (done.returncode, served.posted) == (0, [])
        said = " ".join(done.stdout.split())
        assert "would power-cycle spark2: POST http://plug/relay/0?turn=off&timer=10." in said
        assert "without --force it is refused until 2026-11-27T12:00:00Z." in said
        told = json.loads(
            sparkd(served.socket_path, "ctl", "nodes", "power-cycle", "spark2", "--dry-run", "--json").stdout
        )
        assert told["power"]["would"] == KNOWN["would"]


def test_a_node_without_a_hook_is_refused_with_what_to_write() -> None:
    with daemon(serving()) as served:
        served.answers = {POWER: (409, error("conflict", "spark2 has no power hook", "write it into sparkd.yaml"))}
        done = sparkd(served.socket_path, "ctl", "nodes", "power-cycle", "spark2", "-y")
        assert (done.returncode, served.posted) == (1, [])
        assert "spark2 has no power hook" in done.stderr
        assert "write it into sparkd.yaml" in done.stderr


def test_the_last_use_is_shown_with_the_nodes() -> None:
    last = {"at": "2026-11-27T06:01:02Z", "by": None, "message": None, "ok": True, "text": "exit code 0"}
    scene = status(deployment(), nodes=[node("spark1"), node("spark2", power={"auto": True, "last": last})])
    with daemon(scene) as served:
        shown = " ".join(sparkd(served.socket_path, "ctl", "nodes").stdout.split())
        assert "its power was taken 06:01 (1 h ago) by sparkd itself: exit code 0" in shown


def test_nodes_is_still_a_command_of_its_own() -> None:
    golden = (Path(__file__).parent / "golden" / "nodes.txt").read_text()
    assert golden.lstrip().startswith("NODE")
    with daemon(serving()) as served:
        assert sparkd(served.socket_path, "ctl", "nodes").stdout.lstrip().startswith("NODE")
        wrong = sparkd(served.socket_path, "ctl", "nodes", "powercycle", "spark2")
        assert wrong.returncode == 2
        assert "power-cycle" in wrong.stderr
