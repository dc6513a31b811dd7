"""Asking an engine: what is asked of systemd, what is refused before, and what its last words mean. The lab has the real one."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from sparkd.engines.vllm.parser_script import __file__ as script_file
from sparkd.node import server, units
from sparkd.node.refusal import Refusal
from sparkd.node.verbs import ask_parser

ASKED = {"python": "/bin/sh", "script": "print('$HOME')", "user": getpass.getuser(), "env": {"HOME": "/tmp"}}
KILLED = "Finished with result: signal\nMain processes terminated with: code=killed, status=9/{}\nCPU: 1s\n"
BEGAN = "Running as unit: sparkd-ask.service\n"


def ask(**changes: Any) -> str:
    return ask_parser.ask_engine(None, "us", {**ASKED, **changes}, 10.0)  # type: ignore[arg-type]  # it is not looked at


def test_it_runs_as_its_user_confined_and_ends_by_itself() -> None:
    vector = ask_parser.systemd_run(ask_parser._question(ASKED), 100.0)
    limits = {f"--uid={ASKED['user']}", "--property=RuntimeMaxSec=100s", "--property=PrivateNetwork=yes"}
    assert limits | {"--property=LimitFSIZE=4194304", "--collect", "--setenv=HOME=/tmp"} <= set(vector)
    assert vector[vector.index("--") :] == ["--", "/bin/sh", "-c", "print('$$HOME')", "100"]
    assert not units.NAME.fullmatch(ask_parser.UNIT.removesuffix(".service")), "it must never be listed as a rank"


def test_the_script_fits_into_an_argument() -> None:
    assert len(Path(script_file).read_bytes()) < 100_000


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"python": "bin/python"}, "path-missing"),
        ({"python": "/none"}, "path-missing"),
        ({"user": "no-such-user"}, "user-missing"),
        ({"user": "-x"}, "usage"),
        ({"script": 1}, "usage"),
        ({"env": {"A=B": "c"}}, "usage"),
    ],
)
def test_what_is_refused_before_anything_runs(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as refused:
        ask(**changes)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("Failed to start transient service unit: Unit sparkd-ask.service was already loaded.\n", "busy", "another"),
        (f"{BEGAN}Finished with result: oom-kill\n", "ended", "more than 4 GiB"),
        (f"{BEGAN}Finished with result: timeout\n", "ended", "did not end in 9 s"),
        (
            f"{BEGAN}Traceback:\nNo module named vllm\n\nFinished with result: exit-code\nCPU: 1s\n",
            "ended",
            "No module named",
        ),
        (f"{BEGAN}Finished with result: signal\n", "ended", "without a word"),
        (f"{BEGAN}{KILLED.format('KILL')}", "ended", "more than 4 GiB"),
        (f"{BEGAN}{KILLED.format('ALRM')}", "ended", "did not end in 9 s"),
        (f"{BEGAN}{KILLED.format('SEGV')}", "ended", "without a word"),
        ("Failed to connect to bus: x\n", "ended", "connect to bus"),
    ],
)
def test_what_its_last_words_mean(said: str, code: str, words: str) -> None:
    refusal = ask_parser._refusal(said, 9.0)
    assert (refusal.code, words in refusal.error) == (code, True), refusal.error


def test_the_nodes_log_does_not_hold_the_script() -> None:
    assert "print" not in json.dumps(server._shown(ASKED))
