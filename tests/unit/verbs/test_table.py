"""The verbs there are: each in a file of its name, in order, and nothing that two of them mean differently."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sparkd.verbs
from sparkd.api import Invalid, parse
from sparkd.verbs import Verb, options, verbs

ROOT = Path(__file__).parents[3]


def test_every_file_is_the_verb_of_its_name_and_they_have_an_order() -> None:
    files = {path.stem for path in Path(sparkd.verbs.__file__).parent.glob("*.py")} - {"__init__"}
    known = ["start", "stop", "restart", "pause", "resume", "release"]
    assert [name for name in verbs() if name in known] == known
    assert set(verbs()) == files
    assert len({one.place for one in verbs().values()}) == len(files), "two verbs have the same `place`"


def test_an_option_means_the_same_with_every_verb() -> None:
    assert all(options()[one.key] == one for verb in verbs().values() for one in verb.takes)


@pytest.mark.parametrize("verb", verbs().values(), ids=lambda verb: verb.name)
def test_its_texts_can_be_shown(verb: Verb) -> None:
    assert verb.effect.format(name="ds4", nodes="spark1", next=2).startswith(f"{verb.name} ds4")
    assert all(example.startswith(f"sparkd ctl {verb.name} ") for example in verb.examples)
    assert verb.help.partition("\n\n")[0].endswith(".")


@pytest.mark.parametrize(
    ("verb", "body", "text", "fix"),
    [
        ("start", b'{"clean": true}', "clean goes with restart only", "sparkd ctl restart ds4 --clean"),
        ("stop", b'{"force": true}', "force goes with start and restart only", "sparkd ctl start ds4 --force"),
        *(
            (verb, b'{"assume_lost": ["spark1"]}', "assume_lost goes with stop only", "sparkd ctl stop ds4 --assume-lost NODE")
            for verb in ("start", "restart", "pause")
        ),
    ],
)  # fmt: skip
def test_what_a_verb_does_not_take_is_refused_with_one_that_does(verb: str, body: bytes, text: str, fix: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse.operation(body, verbs()[verb], "ds4", ["spark1"], "milo")
    assert (refused.value.text, refused.value.fix) == (text, fix)


def test_what_is_off_was_not_given() -> None:
    body = b'{"assume_lost": [], "clean": false, "force": false, "to": null}'  # as clients sent it before there was a table
    assert all(parse.operation(body, verb, "ds4", [], "milo").options == {} for verb in verbs().values())


def test_the_interfaces_name_them() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "interfaces.md").read_text("utf-8"))
    for listed in (f"`POST /api/v1/deployments/NAME/{{{','.join(verbs())}}}`", f" | {' | '.join(verbs())} | "):
        assert listed in text, f"docs/interfaces.md lists the verbs by hand: write {listed}"
