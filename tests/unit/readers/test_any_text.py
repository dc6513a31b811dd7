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

import sparkd.engines
import sparkd.facts
from sparkd.engines import ENGINES
from sparkd.facts import FactError
from sparkd.model.printed import document

from .monsters import DIGITS, MONSTERS, checked

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


SHAPES = (
    *(
        "@",
        "@\n",
        "a @\n",
        "@ @ @ @\n",
        "Now=@\n\nId=@\nRestartUSec=@\n",
        "Now=1\n\nId=a\nNRestarts=@\nStartLimitBurst=@\n",
    ),
    *("non-default args: {'a': @, 'b': [@, '@'], '@': 1}", "Using max model len @", "Launching vLLM (v@) headless"),
    *("vllm:generation_tokens_total @\n", 'vllm:generation_tokens_total{engine="@"} 1\n'),
    'vllm:prompt_tokens_total 1\nvllm:cache_config_info{num_gpu_blocks="@",block_size="16"} 1\n',
    "vllm:prompt_tokens_total 1\nvllm:spec_decode_num_drafts_total 5\n"
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="@"} 1\n',
)
"""How a monster stands in a text."""


def _modules(package: Any) -> Iterator[Any]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("parser_script"):  # a program for another Python, not for this one
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


REFUSES: Mapping[str, type[ValueError]] = {"facts.units.timespan": ValueError, "engines.flags.parse_table": ValueError}
"""Beside the readers of facts, which raise FactError; no other raises anything."""


def survives(name: str, text: str) -> None:
    """It gives a value that can be worked with, or refuses with the error that it documents."""
    documented = REFUSES.get(name, FactError if name.startswith("facts.") else None)
    try:
        value = READERS[name](text)
    except ValueError as error:
        if documented is None or not isinstance(error, documented) or isinstance(error, UnicodeError):
            raise
        why = str(error)
    else:
        checked(value)
        why = ""
    assert len(why) < 2000, "a reason is one sentence, whatever was printed"


def test_the_readers_are_found() -> None:
    facts = {f"facts.{folder.name}.parse" for folder in (TESTS / "facts/recorded").iterdir()}
    methods = {f"vllm.{name}" for name in ("metrics", "findings", "arguments", "in_use", "stage")}
    assert (
        facts | methods | {"engines.prometheus.samples", "engines.flags.parse_table", "facts.units.timespan"}
        <= READERS.keys()
    )


@pytest.mark.parametrize("name", READERS)
def test_a_reader_survives_every_monster(name: str) -> None:
    for monster in MONSTERS:
        for shape in SHAPES:
            survives(name, shape.replace("@", monster))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_with_any_word_replaced_by_a_monster_is_read_or_refused(recorded: Path) -> None:
    """One word after the other, as many as the time allows; of JSON every leaf by a value of another type."""
    text = recorded.read_bytes().decode()
    of_engines = [name for name in READERS if name.startswith("vllm.")]
    mine = of_engines if recorded.suffix == ".log" else [f"facts.{RECORDED[recorded]}.parse"]
    for changed in (*_spoiled_words(text), *_spoiled_json(text), *_cut(text)):
        for name in mine:
            survives(name, changed)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
@given(text=TEXTS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_reader_survives_any_text(name: str, text: str) -> None:
    survives(name, text)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", READERS)
@given(text=TEXTS)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_reader_survives_any_text_for_longer(name: str, text: str) -> None:
    survives(name, text)
