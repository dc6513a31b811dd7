"""Folders that are listed: what lies there by accident is no module, and a mistake names its file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.base import listed
from sparkd.node import listed as on_nodes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `family` with one module in it."""
    package = tmp_path / "family"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "swap.py").write_text("CHECK = 'swap'")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "family"]:
        del sys.modules[name]


def names(folder: Path) -> list[str]:
    return listed.each("family", [str(folder)], "CHECK", str)


STRAY = ("swap copy.py", "._swap.py", ".#swap.py", "swap-2.py", "swap.py~", "swap.py.orig", ".swap.py.swp", "README")


@pytest.mark.parametrize("name", STRAY)
def test_what_an_editor_or_a_copy_leaves_there_is_no_module(folder: Path, name: str) -> None:
    (folder / name).write_text("this is no Python")
    assert names(folder) == ["swap"]
    assert on_nodes.names([str(folder)]) == ["swap"]


def test_a_folder_is_none_either(folder: Path) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "__init__.py").write_text("")
    assert names(folder) == on_nodes.names([str(folder)]) == ["swap"]
    (folder / "odd.py").mkdir()
    assert on_nodes.names([str(folder)]) == ["swap"]


def test_a_module_without_what_it_is_for_is_named(folder: Path) -> None:
    (folder / "clock.py").write_text("CHEQUE = 1")
    with pytest.raises(ImportError, match=r"family/clock\.py holds no CHECK"):
        names(folder)


def test_two_of_one_name_are_named(folder: Path) -> None:
    (folder / "swap_old.py").write_text("CHECK = 'swap'")
    with pytest.raises(ImportError, match="family: swap and swap_old both hold 'swap'"):
        names(folder)


def test_nothing_at_all_is_a_mistake_and_not_a_node_that_sees_nothing(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="no module in"):
        on_nodes.names([str(tmp_path)])


def test_without_its_sources_a_package_is_listed_too(tmp_path: Path) -> None:
    (tmp_path / "ping.pyc").write_bytes(b"")
    assert on_nodes.names([str(tmp_path)]) == ["ping"]
