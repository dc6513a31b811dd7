"""One recorded output = one test: recorded/FACT/CASE.txt is what a node said, CASE.json what must be read from it.

`{"value": …}` holds the dataclass as JSON (tuples as lists), `{"error": "…"}` a part of the FactError's message. To add
a case, add the two files. `bench-*` and `lab-*` were recorded; the others were made from a recorded one by hand.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from sparkd.facts import FactError

RECORDED = Path(__file__).parent / "recorded"
FACTS = sorted(folder.name for folder in RECORDED.iterdir())
CASES = sorted(RECORDED.glob("*/*.txt"))


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_recorded(case: Path) -> None:
    parse = importlib.import_module(f"sparkd.facts.{case.parent.name}").parse
    expected = json.loads(case.with_suffix(".json").read_text())
    text = case.read_bytes().decode()
    if "error" in expected:
        with pytest.raises(FactError) as caught:
            parse(text)
        assert expected["error"] in str(caught.value)
    else:
        assert plain(parse(text)) == expected["value"]


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_has_the_bad_cases(fact: str) -> None:
    cases = {case.stem for case in CASES if case.parent.name == fact}
    missing = {"empty", "truncated", "foreign"} - cases
    assert not missing, f"recorded/{fact} lacks {missing}"
    recorded = any(case.startswith(("lab-", "bench-")) for case in cases)
    assert recorded, f"recorded/{fact} has no output of a real node: lab-….txt or bench-….txt"


def test_every_fact_is_tested() -> None:
    modules = Path(importlib.import_module("sparkd.facts").__path__[0]).glob("*.py")
    assert {module.stem for module in modules} - {"__init__"} == set(FACTS)
