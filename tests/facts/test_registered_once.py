"""A fact is one file on the head and one probe on the node, and no list names either a second time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import sparkd.facts
from sparkd.facts import Fact, Question
from sparkd.hosts.client import Probed
from sparkd.model.config import Cluster, Deployment
from sparkd.node import probes
from sparkd.node.probes import PROBES
from sparkd.observe.unknowns import Reader, Unknowns
from sparkd.runtimes.inside import Inside

MADE_UP = Path(__file__).with_name("made_up")


def facts() -> dict[str, Fact[Any]]:
    """File of `sparkd.facts` -> the Fact it holds."""
    found: dict[str, Fact[Any]] = {}
    for file in iter_modules(sparkd.facts.__path__):
        module = import_module(f"sparkd.facts.{file.name}")
        own = [
            one for one in vars(module).values() if isinstance(one, Fact) and one.parse.__module__ == module.__name__
        ]
        assert len(own) == 1, f"{file.name} holds {len(own)} facts"
        found[file.name] = own[0]
    return found


def test_every_probe_has_a_fact_and_every_fact_a_probe() -> None:
    names = [one.name for one in facts().values() if one.via == "node"]
    assert sorted(names) == sorted(PROBES)


def test_what_docker_tells_is_asked_by_the_names_that_it_knows() -> None:
    told = {one.name for one in facts().values() if one.via == "docker"}
    assert told == set(Inside("spark1", lambda: Path("/nowhere"))._tellers)


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One file more on each side."""
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(MADE_UP / "node")])
    monkeypatch.setattr(sparkd.facts, "__path__", [*sparkd.facts.__path__, str(MADE_UP / "head")])
    yield
    for module in ("sparkd.node.probes.tides", "sparkd.facts.tides"):
        sys.modules.pop(module, None)


async def test_one_file_on_each_side_is_all_that_a_new_fact_takes(one_more: None) -> None:
    """The node answers to its name, and the head knows what to ask and how to read it."""
    fact, known = facts()["tides"], probes.listed()
    assert set(known) == {*PROBES, "tides"}
    args = fact.args(Question(Cluster(cluster="", nodes={}), Deployment(name="d", engine="vllm", nodes=("a",)), "a"))
    assert args is not None
    read = Reader(Unknowns(), "a", Probed({fact.name: known[fact.name](args, 1.0)}, {}), None)
    assert await read(fact) == "noon"
