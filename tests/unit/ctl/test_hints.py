"""Every hint in the product names a command that exists: a person who is told to type something types it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click import Command, Context, Group

from sparkd.cli.main import cli

ROOT = Path(__file__).parents[3]
SUFFIXES = {".py", ".html", ".yml", ".yaml", ".service", ".socket", ".json", ".sh", ".md"}
FILES = sorted(
    path for folder in ("sparkd", "deploy") for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES
)
HINT = re.compile(r"`sparkd ([^`\n]+)`|\bsparkd (ctl [a-z-]+|config [a-z-]+|demo fault)\b")


def trouble(hint: str) -> str | None:
    """What is wrong with the words after `sparkd`, or None. Names in it may be placeholders of any kind."""
    command: Command = cli
    words = hint.split()
    while isinstance(command, Group) and words and not words[0].startswith("-"):
        word = words.pop(0)
        found = command.get_command(Context(command), word) if word in command.list_commands(Context(command)) else None
        if found is None:
            return f"there is no command {word!r}"
        command = found
    options = {"-h", "--help", *(option for parameter in command.params for option in parameter.opts)}
    strange = [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]
    return f"there is no option {strange[0]}" if strange else None


def hints(text: str) -> list[str]:
    return [quoted or bare for quoted, bare in HINT.findall(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_hints_name_commands_that_exist(path: Path) -> None:
    wrong = {hint: said for hint in hints(path.read_text("utf-8")) if (said := trouble(hint))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see `sparkd ctl why {name}`", False),
        ("`sparkd ctl stop x --assume-lost NODE`", False),
        ("sparkd ctl watch {name}", False),
        ("`sparkd init`", True),
        ("`sparkd ctl nodes --trust x`", True),
        ("or: sparkd ctl relaod", True),
    ],
)
def test_a_hint_is_found_and_judged(text: str, wrong: bool) -> None:
    [hint] = hints(text)
    assert bool(trouble(hint)) is wrong


def test_there_are_hints_to_look_at() -> None:
    assert sum(len(hints(path.read_text("utf-8"))) for path in FILES) > 30
