"""The house as docs/architecture.md describes it: no circle of files or folders, nothing loose, nothing too long to read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from imports import SPARKD, circle, functions, graph, modules, rooms

LOOSE = {"__init__", "__main__", "http", "render"}
"""The package itself, its door, the one HTTP client, and the pure plan of a rank."""

MOST_LINES = 300
LONGER: dict[str, str] = {}
"""Module -> why it is longer than that."""

MOST_OF_A_FUNCTION = 40
LONGER_FUNCTIONS: dict[str, str] = {}
"""`module:function` -> why it is longer than that."""


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert not circle(graph(modules()))


def test_no_room_imports_itself_by_way_of_others() -> None:
    found = rooms(graph(modules()))
    assert len(found) > 20
    assert not circle(found)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a": "from sparkd import b", "b": "import sparkd.a"}, {"sparkd.a", "sparkd.b"}),
        ({"a": "def f():\n    from sparkd.b import X", "b": "from . import a"}, {"sparkd.a", "sparkd.b"}),
        ({"a": "from sparkd import b", "b": "import os"}, set()),
    ],
)
def test_a_circle_is_found(tmp_path: Path, files: dict[str, str], found: set[str]) -> None:
    root = tmp_path / "sparkd"
    root.mkdir()
    (root / "__init__.py").touch()
    for name, text in files.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    assert set(circle(graph(modules(root)))) == found


def test_loose_in_the_package_is_only_what_has_no_room() -> None:
    assert {path.stem for path in SPARKD.glob("*.py")} == LOOSE


def test_every_room_says_what_it_is_for() -> None:
    unsaid = [name for name, path in modules().items() if not path.read_text("utf-8").startswith('"""')]
    assert not unsaid


def test_modules_are_short_or_say_why() -> None:
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {name for name, count in lines.items() if count > MOST_LINES} == set(LONGER)


def test_functions_are_short_or_say_why() -> None:
    long = {
        f"{name}:{function}"
        for name, path in modules().items()
        for function, count in functions(path)
        if count > MOST_OF_A_FUNCTION
    }
    assert long == set(LONGER_FUNCTIONS)


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_guides_name_files_that_are_there(page: str) -> None:
    """`x/y.py` is inside of the package unless it begins with another folder."""
    named = set(re.findall(r"`([\w/.-]+\.(?:py|toml|md|json))`", (SPARKD.parent / page).read_text("utf-8")))
    made_up = {name for name in named if "NAME" in name or "CASE" in name}
    assert len(named - made_up) > 0
    assert not {one for one in named - made_up if not (SPARKD / one).exists() and not (SPARKD.parent / one).exists()}


def test_the_first_page_of_decide_names_every_part_of_it() -> None:
    parts = {path.stem for path in (SPARKD / "decide").glob("*.py")} - {"__init__"}
    said = (SPARKD / "decide" / "__init__.py").read_text("utf-8")
    assert parts == {line.split()[0] for line in said.splitlines() if "  " in line.strip()}
