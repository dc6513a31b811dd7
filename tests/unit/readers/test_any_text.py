"""Every reader of `sparkd/engines` and `sparkd/facts`, found by walking the packages, against what nobody would print on purpose: it
returns a value, or raises the one error that it documents. A new reader is among them without anybody remembering it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monsters import DIGITS, MONSTERS, checked

import sparkd.engines
import sparkd.facts
from sparkd.engines import ENGINES
from sparkd.model.printed import document

TESTS = Path(__file__).parents[2]
RECORDED = {
    **{text: text.parent.name for text in sorted((TESTS / "facts/recorded").glob("*/*.txt"))},
    **dict.fromkeys(sorted((TESTS / "unit/engines/recorded").glob("*.log")), "engines"),
}
LEAVES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0.5,
    1e308,
    10**19,
    10**30,
    "",
    "x",
    "²",
    [],
    {},
    [[]],
    {"a": None},
    ["\ud800"],
)


def _modules(package: Any) -> Iterator[Any]:
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("vllm_parser"):  # a program for another Python, not for this one
            yield importlib.import_module(info.name)


def _readers() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Public functions of one text or of lines, and the methods of the engines that read."""
    for package in (sparkd.facts, sparkd.engines):
        for module in _modules(package):
            ours = inspect.getmembers(module, inspect.isfunction)
            ours = [(name, one) for name, one in ours if one.__module__ == module.__name__]
            yield from _public(module.__name__.removeprefix("sparkd."), ours)
    for engine in ENGINES.values():
        yield from _public(engine.name, inspect.getmembers(engine, inspect.ismethod))


def _public(of: str, functions: list[tuple[str, Any]]) -> Iterator[tuple[str, Callable[[str], object]]]:
    for name, function in functions:
        if not name.startswith("_") and (reads := _reading(function)) is not None:
            yield f"{of}.{name}", reads


def _reading(function: Callable[..., object]) -> Callable[[str], object] | None:
    """The function as one of a text alone, by the names of its parameters; None for what reads no such text."""
    wanted = [name for name, one in inspect.signature(function).parameters.items() if one.default is one.empty]
    if not wanted or wanted[0] not in _FROM or any(name not in (*_FROM, *_BESIDE) for name in wanted):
        return None
    return lambda text: function(*(_FROM[name](text) if name in _FROM else _BESIDE[name] for name in wanted))


def _path_and_answer(text: str) -> Any:
    try:
        return document(text)
    except ValueError:
        return text


_FROM: Mapping[str, Callable[[str], Any]] = {
    "text": lambda text: text,
    "lines": lambda text: text.split("\n"),
    "titles": lambda text: text.split("\n"),
    "answer": _path_and_answer,
    "path": lambda text: text,
}
_BESIDE: Mapping[str, Any] = {"health": None, "answer": None}
READERS = dict(_readers())
_WORD = re.compile(r"([\w.²-]+)")


def tried(reads: Callable[[str], object], text: str) -> object:
    """Its value; None where it refused with the documented error."""
    try:
        return reads(text)
    except ValueError as error:
        why: Exception = error
    assert not isinstance(why, UnicodeError)
    assert len(str(why)) < 2000, "a reason is one sentence, whatever was printed"
    return None


def test_the_readers_are_found() -> None:
    facts = {f"facts.{folder.name}.parse" for folder in (TESTS / "facts/recorded").iterdir()}
    methods = {f"vllm.{name}" for name in ("metrics", "findings", "arguments", "in_use", "stage")}
    assert (
        facts | methods | {"engines.prometheus.samples", "engines.flags.parse_table", "facts.units.timespan"}
        <= READERS.keys()
    )


@pytest.mark.parametrize("name", READERS)
def test_a_reader_survives_every_monster(name: str) -> None:
    reads = READERS[name]
    for monster in MONSTERS:
        for text in (
            monster,
            f"{monster}\n",
            f"a {monster}\n",
            f"Now={monster}\n\nId={monster}\nRestartUSec={monster}\n",
        ):
            checked(tried(reads, text))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_with_any_word_replaced_by_a_monster_is_read_or_refused(recorded: Path) -> None:
    """One word after the other, as many as the time allows; of JSON every leaf by a value of another type."""
    text = recorded.read_bytes().decode()
    mine = [READERS[f"facts.{RECORDED[recorded]}.parse"]] if RECORDED[recorded] != "engines" else list(_of_engines())
    for changed in (*_spoiled_words(text), *_spoiled_json(text), *_cut(text)):
        for reads in mine:
            checked(tried(reads, changed))


def _of_engines() -> Iterator[Callable[[str], object]]:
    yield from (reads for name, reads in READERS.items() if name.startswith("vllm."))


def _spoiled_words(text: str) -> Iterator[str]:
    parts = _WORD.split(text)
    words = range(1, len(parts), 2)
    for at in words[:: max(1, len(words) // 25)]:
        for monster in (DIGITS, "nan", "²", "1e999", "\ud800", "%i%n%i%n%i", "-1"):
            yield "".join(monster if other == at else part for other, part in enumerate(parts))


def _spoiled_json(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        return
    places = list(_places(value))
    for place in places[:: max(1, len(places) // 60)]:
        for leaf in LEAVES:
            yield json.dumps(_with(value, place, leaf))


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*here, key))


def _with(value: Any, place: tuple[Any, ...], leaf: Any) -> Any:
    if not place:
        return leaf
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], leaf)
    return copy


def _cut(text: str) -> Iterator[str]:
    yield from (text[: len(text) * part // 8] for part in range(8))


PIECES = (*MONSTERS[:30], "vllm:generation_tokens_total ", "non-default args: {'a': ", "\n", " ", "=", ",", "}")
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(categories=("Cs", "Cc", "Nd", "Lu", "Zs"))),
    st.lists(st.sampled_from(PIECES)).map("".join),
)


@pytest.mark.parametrize("name", READERS)
@given(text=TEXTS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_reader_survives_any_text(name: str, text: str) -> None:
    checked(tried(READERS[name], text))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", READERS)
@given(text=TEXTS)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_reader_survives_any_text_for_longer(name: str, text: str) -> None:
    checked(tried(READERS[name], text))
