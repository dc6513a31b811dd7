"""What an engine says of itself, beside its command line: another value that it runs with is found, and only that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparkd.drift import Difference, RankForm, Side, compare
from sparkd.drift.argv import read_argv
from sparkd.drift.known_good import as_yaml, from_plain
from sparkd.drift.said import GIVEN, IN_USE
from sparkd.engines.tables import shipped
from sparkd.model.secret import HIDDEN
from sparkd.settings.reader import parse

WORDS = "/models/X --tensor-parallel-size 2 --max-num-seqs 4 --max-model-len 2k --served-model-name x"
LOGGED = {"max-num-seqs": 4, "max-model-len": 2000, "tensor-parallel-size": 2, "served-model-name": ["x"]}
USED = {"max-model-len": 2000, "served-model-name": "x", "version": "0.32.0"}


def rank(number: int = 0, words: str = WORDS, log: Any = None, used: Any = None) -> RankForm:
    found = read_argv(words.split(), shipped("vllm"))
    says: dict[str, Any] = {GIVEN: {**LOGGED, **(log or {})}, IN_USE: {**USED, **(used or {})}}
    return RankForm(rank=number, node=f"spark{number + 1}", model=found.model, flags=found.flags, says=says)


def side(*ranks: RankForm, label: str = "side") -> Side:
    return Side(label=label, kind="live", ranks=ranks)


def told(known: RankForm, live: RankForm) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.known, one.live) for one in compare(side(known), side(live))]


def only(known: RankForm, live: RankForm) -> Difference:
    (found,) = compare(side(known), side(live))
    return found


def test_an_engine_that_says_what_its_command_line_says_differs_in_nothing() -> None:
    assert told(rank(), rank()) == []
    words = f"{WORDS} --gpu-memory-utilization .9 --tokenizer /models/X"
    spelled = rank(words=words, log={"gpu-memory-utilization": "0.90", "tokenizer": "/models/X/"})
    assert told(replace(spelled, says=None), spelled) == []
    assert told(replace(rank(), says=None), rank()) == []


def test_a_configuration_file_changes_no_word_of_the_command_line() -> None:
    """`vllm serve --config FILE`: what is in FILE shows nowhere but in what the engine says."""
    seqs = only(rank(), rank(log={"max-num-seqs": 8}))
    assert (seqs.name, seqs.known, seqs.live, str(seqs.severity)) == ("--max-num-seqs", 4, 8, "slows")
    assert "its command line says 4: look for a `--config` file" in str(seqs.why)
    eager = only(rank(), rank(log={"enforce-eager": True}))
    assert (eager.name, eager.live) == ("--enforce-eager", True)
    assert "its command line does not say it" in str(eager.why)


def test_what_was_so_when_it_worked_is_no_news() -> None:
    odd = rank(log={"max-num-seqs": 8})
    assert told(odd, odd) == []
    assert told(odd, replace(odd, says=None)) == [], "a log that was rotated away says nothing"
    wanted = replace(odd, says=None)
    assert told(wanted, odd) == [("--max-num-seqs", 4, 8)], "the file wants what its words say"


def test_a_change_of_the_command_line_is_one_finding_whoever_says_it() -> None:
    live = rank(words=WORDS.replace("2k", "4k"), log={"max-model-len": 4000}, used={"max-model-len": 4000})
    assert told(rank(), live) == [("--max-model-len", 2000, 4000)]


def test_the_second_source_where_no_command_line_could_be_read() -> None:
    live = replace(rank(log={"max-num-seqs": 8}), flags=None, model=None)
    one = only(rank(), live)
    assert (one.name, one.known, one.live) == ("--max-num-seqs", 4, 8)
    assert "its command line could not be read" in str(one.why)


def test_what_became_of_a_flag_that_nobody_gave() -> None:
    words = WORDS.replace(" --max-model-len 2k", "")
    given = {name: value for name, value in LOGGED.items() if name != "max-model-len"}

    def length(value: int) -> RankForm:
        form = rank(words=words, used={"max-model-len": value})
        return replace(form, says={**(form.says or {}), GIVEN: given})

    one = only(length(131072), length(40960))
    assert (one.name, one.known, one.live) == ("max-model-len in use", 131072, 40960)
    assert "config.json" in str(one.why)
    assert told(replace(length(40960), says=None), length(40960)) == [], (
        "what a file leaves to the engine is not wanted"
    )


def test_another_engine_behind_the_same_words() -> None:
    one = only(rank(), rank(used={"version": "0.31.1"}))
    assert (one.name, one.known, one.live, one.kind) == ("version in use", "0.32.0", "0.31.1", "flag")
    assert one.fix


def test_another_model_is_one_finding_although_it_is_served_by_its_path() -> None:
    words = WORDS.replace(" --served-model-name x", "")
    one = rank(words=words, log={"served-model-name": ["/models/X"]}, used={"served-model-name": "/models/X"})
    two = rank(words=words.replace("X", "Y"), used={"served-model-name": "/models/Y"})
    given = {name: value for name, value in LOGGED.items() if name != "served-model-name"}
    one, two = (replace(form, says={**(form.says or {}), GIVEN: given}) for form in (one, two))
    assert told(one, two) == [("model", "/models/X", "/models/Y")]


def test_ranks_of_different_lengths_serve_until_a_long_request() -> None:
    """Two config.json, or two amounts of memory, and the same words (evidence 12a)."""
    good = side(rank(0), rank(1))
    short = side(rank(0), rank(1, used={"max-model-len": 1000}))
    (one,) = compare(good, short)
    assert (one.name, one.rank, str(one.severity)) == ("max-model-len in use", 1, "breaks")
    assert "12a" in str(one.why)


def test_it_is_kept_in_a_record_without_secrets() -> None:
    form = rank(log={"api-key": ["planted-0123"], "max-num-batched-tokens": 4096})
    text = as_yaml(side(form), {})
    assert "planted" not in text
    assert "max-num-batched-tokens: 4096" in text
    tree, problems = parse(text.encode(), "record")
    assert not problems
    assert tree is not None
    (kept,) = from_plain(tree.plain(), "known-good 1").ranks
    assert kept.says is not None
    assert kept.says[GIVEN]["api-key"] == HIDDEN
    assert compare(side(kept), side(form)) == ()
