"""Every fault of docs/faults.md has a test that is named by it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LISTED = re.compile(r"^\| (F\d\d) \|", re.MULTILINE)
NAMED = re.compile(r"^(?:async )?def test_(f\d\d)_", re.MULTILINE)


def listed() -> list[str]:
    return LISTED.findall((ROOT / "docs/faults.md").read_text())


def named() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {found.upper() for file in files for found in NAMED.findall(file.read_text())}


def test_every_fault_has_a_test_and_every_such_test_a_fault() -> None:
    assert sorted(listed()) == sorted(set(listed())), "a fault is listed twice"
    assert not set(listed()) - named(), "these faults of docs/faults.md have no test whose name begins with test_fNN_"
    assert not named() - set(listed()), "these have a test and are not in docs/faults.md"
