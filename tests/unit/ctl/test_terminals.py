"""What a terminal can do is what it gets: its width, its colours, its ctrl-C; and a pipe's end is respected."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ctl_daemon import Daemon, Json, Session, daemon, environment, on_terminal, sparkd
from ctl_scenes import backoff, broken, healing, held, serving, starting, two, unknown_node
from test_ctl_read import HISTORY, LOGS, WHY, ndjson

SHIPPED = Path(__file__).parents[3] / "config"
SCENES = (serving, healing, held, two, unknown_node, starting, broken, backoff)
VERBS = (
    ("status",),
    ("why", "ds4-flash"),
    ("nodes",),
    ("history",),
    ("logs", "ds4-flash"),
    ("capture", "list", "ds4-flash"),
)
SAVED = {
    "schema": 1,
    "folder": "/var/lib/sparkd/captures/ds4-flash",
    "captures": [
        {
            "generation": 13,
            "at": "2026-11-27T03:00:33Z",
            "reason": "failed",
            "folder": "/var/lib/sparkd/captures/ds4-flash/20261127T030033Z-g13-failed",
            "ranks": [
                {"rank": 0, "node": "spark1", "log_bytes": 90_000},
                {"rank": 1, "node": "spark2", "log_bytes": 9},
            ],
        }
    ],
}


@contextmanager
def talkative(*scenes: Json) -> Iterator[Daemon]:
    """A daemon with something to say to every verb."""
    with daemon(*scenes) as server:
        server.why, server.history, server.logs, server.captures = WHY, HISTORY, ndjson(*LOGS), SAVED
        yield server


# --------------------------------------------------------------------------------------------------------------- width


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_lines_fit_but_for_a_command_to_paste_or_one_long_word(scene: Callable[[], Json], width: int) -> None:
    with talkative(scene()) as server:
        for verb in VERBS:
            shown = sparkd(server.socket_path, "ctl", *verb, env={"COLUMNS": str(width)})
            long = [line for line in (shown.stdout + shown.stderr).splitlines() if len(line) > width]
            assert all(re.fullmatch(r" *(`[^`]+`[.,]?|\S+)", line) for line in long), (verb, long)


def test_a_wide_terminal_is_used() -> None:
    with talkative(held()) as server:
        narrow, wide = (
            sparkd(server.socket_path, "ctl", "why", env={"COLUMNS": width}).stdout for width in ("60", "200")
        )
    assert len(wide.splitlines()) < len(narrow.splitlines())


def test_without_room_for_columns_a_row_is_a_list_and_nothing_is_left_out() -> None:
    with talkative(serving()) as server:
        shown = " ".join(sparkd(server.socket_path, "ctl", "nodes", env={"COLUMNS": "40"}).stdout.split())
    assert "node spark1, state ok, booted 26 Nov 18:00, free 8.0 GiB, available 21.0 GiB, page cache 13.0 GiB" in shown


# -------------------------------------------------------------------------------------------------------------- colour


def interrupted(server: Daemon, words: tuple[str, ...], env: dict[str, str]) -> Session:
    """On a terminal; what goes on for ever is ended once it has shown something."""
    until = {"watch": "serving", "logs": "third"}.get(words[0], "") if words[-1] in ("watch", "-f") else ""
    return on_terminal(server.socket_path, "ctl", *words, env=env, interrupt_at=until)


@pytest.mark.parametrize("words", [*VERBS, ("watch",), ("logs", "-f")], ids=" ".join)
def test_no_color_and_a_dumb_terminal_are_respected_by_every_verb(words: tuple[str, ...]) -> None:
    with talkative(serving()) as server:
        server.events = [("status", serving())]
        plain = interrupted(server, words, {"NO_COLOR": "1"}).text
        assert re.findall(r"\x1b\[[0-9;]*m", plain) == []
        assert "\x1b" not in interrupted(server, words, {"TERM": "dumb"}).text
        assert "\x1b" not in sparkd(server.socket_path, "ctl", *VERBS[0], env={"TERM": "xterm"}).stdout


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_help_has_no_colour(env: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal("/nowhere", "ctl", "--help", env=env).text


# --------------------------------------------------------------------------------------------------------- closed pipe

PRINTING = [
    ("render", "--config", str(SHIPPED), "ds4-flash"),
    ("config", "check", str(SHIPPED)),
    ("config", "schema"),
    ("completion", "bash"),
    ("version",),
    *(("ctl", *verb) for verb in VERBS),
    ("ctl", "logs", "-f"),
    ("ctl", "watch"),
]


@pytest.mark.parametrize("words", PRINTING, ids=lambda words: " ".join(words[:2]))
def test_a_reader_that_went_away_is_no_error_of_any_command(words: tuple[str, ...]) -> None:
    with talkative(two() if "ds4-flash" in words else serving()) as server:
        server.events = [("status", serving())]
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "sparkd", *words]
        env = environment(server.socket_path)
        done = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False)
        os.close(writer)
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.parametrize("words", [*PRINTING, ("ctl", "start", "--wait"), ("nonsense",)], ids=" ".join)
def test_a_reader_of_both_streams_that_went_away_is_none_either(words: tuple[str, ...]) -> None:
    """`2>&1 | head -1`: Python ended some with 120, for what it could not write of its progress."""
    with talkative(two() if "ds4-flash" in words else serving()) as server:
        server.events = [("status", serving())]
        reader, writer = os.pipe()
        os.close(reader)
        command, env = [sys.executable, "-m", "sparkd", *words], environment(server.socket_path)
        done = subprocess.run(command, env=env, stdout=writer, stderr=writer, timeout=30, check=False)
        os.close(writer)
    assert done.returncode == 0


# -------------------------------------------------------------------------------------------------------------- ctrl-C


def ctrl_c(socket: str, *words: str, at: str) -> Session:
    """Ctrl-C typed on a terminal of its own, not a signal: what a person does once `at` is shown."""
    parent, child = pty.openpty()
    command = ["setsid", "--ctty", "--wait", sys.executable, "-m", "sparkd", *words]
    env = environment(socket, COLUMNS="80", TERM="xterm")
    with subprocess.Popen(command, env=env, stdin=child, stdout=child, stderr=child) as process:
        os.close(child)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
            while data := os.read(parent, 65536):
                shown += data
                if at and at.encode() in shown:
                    os.write(parent, b"\x03")
                    at = ""
        code = process.wait(30)
    os.close(parent)
    return Session(shown.decode(), code)


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_ctrl_c_in_a_wait_leaves_the_operation_running_and_says_so(verb: str) -> None:
    with daemon(serving(), starting()) as server:
        server.operations = [{"schema": 1, "operation": "op-7", "state": "running", "sentence": ""}]
        session = ctrl_c(server.socket_path, "ctl", verb, "--yes", "--wait", at="to go")
        assert [path for path, _ in server.posted] == [f"/api/v1/deployments/ds4-flash/{verb}"]
    assert session.code == 130
    said = " ".join(session.text.split())
    assert f"Not cancelled: sparkd goes on with the {verb} of ds4-flash." in said
    assert "`sparkd ctl watch ds4-flash`" in said
    assert "Traceback" not in session.text


@pytest.mark.parametrize(
    ("words", "at"),
    [(("watch",), "is serving"), (("logs", "-f"), "third"), (("history", "-f"), "started as")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_ctrl_c_is_how_looking_on_ends(words: tuple[str, ...], at: str) -> None:
    with talkative(serving()) as server:
        server.events = [("status", serving())]
        session = ctrl_c(server.socket_path, "ctl", *words, at=at)
        assert server.posted == []
    assert session.code == 0
    assert "Traceback" not in session.text


# ------------------------------------------------------------------------------------------------- outputs that are none

WRITERS = (
    ("--help",),
    ("version",),
    ("config", "schema"),
    ("completion", "bash"),
    ("ctl", "status"),
    ("ctl", "why", "--json"),
)


def into(where: str, socket: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The real command with an output of the shell's."""
    argv = ["sh", "-c", f'exec "$@" {where}', "sh", sys.executable, "-W", "error", "-m", "sparkd", *words]
    return subprocess.run(argv, env=environment(socket), capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_an_output_that_is_closed_or_full_is_no_traceback(words: tuple[str, ...]) -> None:
    with talkative(serving()) as server:
        for closed in (">&-", "2>&-", ">&- 2>&-"):
            done = into(closed, server.socket_path, *words)
            assert (done.returncode, done.stderr) == (0, ""), closed
        full = into(">/dev/full", server.socket_path, *words)
    assert (full.returncode, full.stderr.splitlines()[0]) == (
        1,
        "sparkd: the answer cannot be written: No space left on device",
    )


@pytest.mark.parametrize(
    "columns", ["\u00b2", "9" * 5000, "-1", "0", "x"], ids=["power", "long", "minus", "none", "word"]
)
def test_columns_that_are_no_width_are_as_if_they_were_not_set(columns: str) -> None:
    with talkative(serving()) as server:
        plain = sparkd(server.socket_path, "ctl", "status")
        assert sparkd(server.socket_path, "ctl", "status", env={"COLUMNS": columns}).stdout == plain.stdout
