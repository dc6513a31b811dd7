"""The Tab key, asked of the real shells: commands, options, deployments, nodes and ranks; `render`'s without a daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ctl_daemon import daemon, environment, sparkd
from ctl_scenes import serving, two

SHELLS = ("bash", "zsh", "fish")
SHIPPED = Path(__file__).parents[3] / "config"
COMMAND = Path(sys.executable).with_name("sparkd")

ASK = {
    "bash": """
        source <(sparkd completion bash)
        COMP_WORDS=({words}); COMP_CWORD=$(({count} - 1))
        _sparkd_completion sparkd
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "fish": """
        sparkd completion fish | source
        complete --do-complete "{line}"
    """,
    "zsh": """
        compdef() {{ : }}
        compadd() {{ while [[ $1 != -a ]]; do shift; done; print -l -- "${{(@P)2}}" }}
        _describe() {{ print -l -- "${{(@P)3}}" }}
        eval "$(sparkd completion zsh)"
        words=({words}); CURRENT={count}
        _sparkd_completion
    """,
}
"""In the shell's own language: load what the command prints, and complete a line that is being typed. zsh's two
functions that would show the outcome print it."""

CASES = [
    ("ctl re", {"restart", "resume", "release", "reload"}),
    ("ctl status --js", {"--json"}),
    ("ctl status ds", {"ds4-flash"}),
    ("ctl stop --assume-lost sp", {"spark1", "spark2"}),
    ("ctl logs ds4-flash --rank ", {"0", "1"}),
    ("render --config CONFIG de", {"devstral"}),
    ("check --config CONFIG de", {"devstral"}),
    ("render --config CONFIG ds4-flash --rank ", {"0", "1"}),
]


def ask(shell: str, typed: str, socket: str) -> set[str]:
    """What the shell would offer behind `sparkd TYPED`, without the descriptions beside."""
    line = "sparkd " + typed.replace("CONFIG", str(SHIPPED))
    words = line.split() + ([""] if line.endswith(" ") else [])
    script = ASK[shell].format(line=line, words=" ".join(f"'{word}'" for word in words), count=len(words))
    env = environment(socket, PATH=f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}")
    command = [shell, *(["--noprofile", "--norc"] if shell == "bash" else []), "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return {offered for text in done.stdout.splitlines() if (offered := text.partition("\t")[0].partition(":")[0])}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("typed", "offered"), CASES, ids=[typed for typed, _ in CASES])
@pytest.mark.slow
def test_a_shell_completes_what_is_being_typed(shell: str, typed: str, offered: set[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    with daemon(two()) as server:
        assert ask(shell, typed, server.socket_path) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_and_can_be_parsed(shell: str) -> None:
    printed = sparkd("/nowhere", "completion", shell)
    assert printed.returncode == 0
    assert f"_SPARKD_COMPLETE={shell}_complete" in printed.stdout
    if shutil.which(shell) is not None:
        parsed = subprocess.run(
            [shell, "-n"], input=printed.stdout, capture_output=True, text=True, timeout=30, check=False
        )
        assert (parsed.returncode, parsed.stderr) == (0, "")


def offer(socket: str, *words: str) -> list[str]:
    """What the command itself answers to a shell that asks about its last word."""
    whole = ("sparkd", *words)
    env = {"_SPARKD_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(whole), "COMP_CWORD": str(len(whole) - 1)}
    shown = sparkd(socket, env=env)
    assert shown.stderr == ""
    return [line.removeprefix("plain,") for line in shown.stdout.splitlines()]


VERBS = "status watch check why logs history start stop restart pause resume release"


@pytest.mark.parametrize("verb", [*VERBS.split(), "capture list", "capture show"])
def test_every_verb_that_takes_a_deployment_completes_its_name(verb: str) -> None:
    with daemon(two()) as server:
        assert offer(server.socket_path, "ctl", *verb.split(), "ds") == ["ds4-flash"]


@pytest.mark.parametrize(
    "words",
    ["known-good show --generation", "known-good rollback --generation", "known-good diff", "known-good diff 12",
     "bless --generation", "drift --against"],
)  # fmt: skip
def test_recorded_generations_are_offered_where_one_is_meant(words: str) -> None:
    with daemon(serving()) as server:
        records = {"deployment": "ds4-flash", "known_good": [{"generation": 12}, {"generation": 14}]}
        server.answers["/api/v1/deployments/ds4-flash/known-good"] = records
        offered = offer(server.socket_path, "ctl", *words.split(), "")
    assert offered == [*(["known-good", "wanted"] if "against" in words else []), "12", "14"]


@pytest.mark.parametrize("words", [("ctl", "status", "d"), ("ctl", "logs", "d", "--rank", ""), ("render", "d")])
def test_where_nobody_answers_nothing_is_offered_and_nothing_is_said(words: tuple[str, ...], tmp_path: Path) -> None:
    env = {"SPARKD_CONFIG": str(tmp_path)}
    whole = ("sparkd", *words)
    asked = {"_SPARKD_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(whole), "COMP_CWORD": str(len(whole) - 1)}
    shown = sparkd(str(tmp_path / "none"), env={**env, **asked})
    assert (shown.stdout.strip(), shown.stderr) == ("", "")
