"""`sparkd config schema` and the loader agree: key by key, value by value, each is asked about each."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from config_cases import CLUSTER

from sparkd.base.errors import Problem
from sparkd.settings.cluster import cluster_of
from sparkd.settings.deployment import deployment_of
from sparkd.settings.reader import parse
from sparkd.settings.schema import cluster_schema, deployment_schema
from sparkd.settings.tree import Item, from_plain

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is among the dev dependencies")

SHIPPED = Path(__file__).parents[3] / "config"
Path_ = tuple[str | int, ...]
Json = dict[str, Any]

WHOLE_CLUSTER: Json = {
    "cluster": "desk",
    "nodes": {"a": {"address": "local", "data_address": "10.0.0.1"}, "b": {"address": "h", "data_address": "10.0.0.2"}},
    "checks": {"swap": "warn"},
    "notify": {"webhook": {"url": "https://example.org/x"}},
}
WHOLE_DEPLOYMENT: Json = {
    "name": "d",
    "engine": "vllm",
    "nodes": ["a", "b"],
    "image": "registry/image:tag",
    "model": "/models/m",
    "args": {"tensor-parallel-size": 2},
    "container": {"mounts": [{"source": "/m", "target": "/n"}], "ulimits": {"memlock": -1}},
    "env": {"A": "1"},
    "node_env": {"a": {"B": "1"}},
    "secrets": {"HF_TOKEN": {"file": "/etc/sparkd/hf"}},
    "markers": [{"path": "/x"}],
    "memory": {"reserve": {"head": "6GiB"}},
}
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        5,
        8000,
        70000,
        0.5,
        2.5,
        "",
        "x",
        "5",
        "off",
        "on",
        "fail",
        "host",
        "/x",
        "10.0.0.9",
    ),
    *([], ["a"], ["/x"], [1], [None], [{}], {}, {"x": 1}, {"x": "y"}, {"x": None}, {"file": "/x"}, {"a": {"A": "1"}}),
)


class Asked(NamedTuple):
    """One kind of file: its schema, a good one, and the loader's problems with one."""

    schema: Json
    good: Json
    problems: Callable[[Item], tuple[Problem, ...]]
    accepts: Callable[[Any], bool]


def _problems_of_deployment(tree: Item) -> tuple[Problem, ...]:
    return deployment_of(tree, "d.yaml", CLUSTER_VALUE).problems


def _problems_of_cluster(tree: Item) -> tuple[Problem, ...]:
    return cluster_of(tree, "sparkd.yaml")[1]


def parsed(text: str) -> Item:
    tree, problems = parse(text.encode(), "file")
    assert tree is not None
    assert problems == ()
    return tree


CLUSTER_VALUE = cluster_of(parsed(CLUSTER), "sparkd.yaml")[0]


def accepting(schema: Json) -> Callable[[Any], bool]:
    validator = jsonschema.Draft202012Validator(schema)
    return lambda value: bool(validator.is_valid(value))


def _file(schema: Json, good: Json, problems: Callable[[Item], tuple[Problem, ...]]) -> Asked:
    return Asked(schema, good, problems, accepting(schema))


FILES = {
    "sparkd.yaml": _file(cluster_schema(), WHOLE_CLUSTER, _problems_of_cluster),
    "deployment": _file(deployment_schema(), WHOLE_DEPLOYMENT, _problems_of_deployment),
}


def keys(schema: Json, whole: Json, path: Path_ = ()) -> Iterator[Path_]:
    """Every key of a schema; of lists and of what people name, the entries of the good file."""
    for key, value in schema.get("properties", {}).items():
        here = (*path, key)
        yield here
        inner = [value, *value.get("anyOf", ())]
        for one in inner:
            section = whole["$defs"][one["$ref"].rpartition("/")[2]] if "$defs" in one.get("$ref", "") else one
            yield from keys(section, whole, here)
        each = value.get("additionalProperties") or value.get("items")
        if isinstance(each, dict) and "$ref" in each:
            name: str | int = "b" if "additionalProperties" in value else 0
            yield from keys(whole["$defs"][each["$ref"].rpartition("/")[2]], whole, (*here, name))


def changed(good: Json, path: Path_, value: Any) -> Json:
    """A copy with another value at `path`."""
    whole = copy.deepcopy(good)
    place: Any = whole
    for step in path[:-1]:
        place = place.setdefault(str(step), {}) if isinstance(place, dict) else place[int(step)]
    place[path[-1]] = value
    return whole


def of_shape(problem: Problem) -> bool:
    """Said of a value's type or of a key, not of what it means here."""
    return problem.text.startswith(("expected ", "unknown key"))


EVERY = [
    (name, path)
    for name, asked in FILES.items()
    for path in keys(asked.schema, asked.schema)
    if not (name == "deployment" and path[0] == "policy" and len(path) > 1)  # sparkd.yaml has the same
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), EVERY, ids=[f"{name}: {'.'.join(map(str, path))}" for name, path in EVERY])
def test_what_the_schema_refuses_the_loader_refuses_and_the_other_way_round_for_shapes(name: str, path: Path_) -> None:
    asked = FILES[name]
    for value in VALUES:
        whole = changed(asked.good, path, value)
        problems = asked.problems(from_plain(whole, ()))
        good = asked.accepts(whole)
        assert good or problems, f"{value!r} is refused by the schema alone"
        if any(of_shape(problem) for problem in problems):
            assert not good, f"{value!r} is taken by the schema, but: {problems[0]}"


@pytest.mark.parametrize("name", FILES)
def test_an_unknown_key_is_refused_in_every_section(name: str) -> None:
    asked = FILES[name]
    sections = {path[:-1] for path in keys(asked.schema, asked.schema)}
    assert len(sections) > 5
    for section in sections:
        whole = changed(asked.good, (*section, "stranger"), 1)
        assert not asked.accepts(whole), section
        assert any("stranger" in str(problem) for problem in asked.problems(from_plain(whole, ()))), section


@pytest.mark.parametrize("name", FILES)
def test_a_needed_key_is_needed_by_both(name: str) -> None:
    asked = FILES[name]
    for key in asked.schema["required"]:
        without = {other: value for other, value in asked.good.items() if other != key}
        assert not asked.accepts(without)
        assert asked.problems(from_plain(without, ()))


@pytest.mark.parametrize("name", FILES)
def test_the_schema_is_one(name: str) -> None:
    asked = FILES[name]
    jsonschema.Draft202012Validator.check_schema(asked.schema)
    assert asked.problems(from_plain(asked.good, ())) == ()
    assert asked.accepts(asked.good)


@pytest.mark.parametrize(
    "file", [*SHIPPED.glob("*.yaml"), *SHIPPED.glob("deployments/*.yaml")], ids=lambda file: file.name
)
def test_the_shipped_files_name_their_schema_and_fit_it(file: Path) -> None:
    text = file.read_text("utf-8")
    named = text.partition("\n")[0].removeprefix("# yaml-language-server: $schema=")
    schema = json.loads((file.parent / named).read_text("utf-8"))
    assert accepting(schema)(parsed(text).plain())
