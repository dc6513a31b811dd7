"""The words of commands that people and programs start, which nobody has bounded."""

from __future__ import annotations

import json

import pytest

from sparkd.drift.argv import read_argv
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import RankForm, Side
from sparkd.drift.known_good import as_yaml
from sparkd.engines.tables import shipped
from sparkd.facts import units

from .monsters import MONSTERS, checked


@pytest.mark.parametrize("monster", MONSTERS, ids=lambda text: repr(text[:12]))
def test_a_command_line_of_monsters_can_be_kept_and_shown(monster: str) -> None:
    """Whoever starts an engine on a node writes its words: a record and an answer are made of what is read from them."""
    table = shipped("vllm")
    kinds = {flag.kind: f"--{name}" for name, flag in table.flags.items()}
    words = [
        monster,
        *(word for flag in kinds.values() for word in (flag, monster, f"{flag}={monster}K", f"{flag}.a.b", monster)),
    ]
    for part in (words, words[::-1], [f"{word}k" for word in words], [f'{{"a": {word}K}}' for word in words]):
        found = read_argv(["serve", *part, "--unheard-of", monster], table)
        checked(found.flags)
        as_yaml(Side(label="l", kind="live", ranks=(RankForm(model=found.model, flags=found.flags),)), {})
        json.dumps(Difference(severity=Severity.SLOWS, kind="flag", name="x", known=found.flags, live=None).as_json())


UNIT = """Now=1

Id=a.service
ExecStart={{ path=/bin/x ; argv[]={shown} ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}
ExecLine=ExecStart={written}
"""


@pytest.mark.parametrize(
    ("written", "shown", "words"),
    [
        # The words of another command than systemd shows: a pattern would try every place of every specifier, for years.
        ("/bin/x " + "%i%n" * 20 + "Z", "/bin/x " + "a" * 300, ("/bin/x", "a" * 300)),
        ("/bin/x 'a b' %i-%n.c", "/bin/x a b 1-2.c.c", ("/bin/x", "a b", "1-2.c.c")),
        ("/bin/x '%i' z", "/bin/x one two z", ("/bin/x", "one two", "z")),
        ("/bin/x %i", "/bin/y 1", ("/bin/x", "1")),
        ("/bin/x abc", "/bin/x ab", ("/bin/x", "ab")),
        ("/bin/x %iab", "/bin/x ab", ("/bin/x", "ab")),
        (
            "/bin/x ;",
            "/bin/x ; argv[]=y ; ignore_errors=no ; z",
            ("/bin/x", ";", "argv[]=y", ";", "ignore_errors=no", ";", "z"),
        ),
    ],
)
def test_a_persons_command_is_matched_in_one_pass(written: str, shown: str, words: tuple[str, ...]) -> None:
    (unit,) = units.parse(UNIT.format(shown=shown, written=written))
    assert unit.commands[0].words == words
