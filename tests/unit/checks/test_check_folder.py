"""A check is one file of the folder: it needs no entry in a list, here neither, and it is seen everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sparkd.checks
from sparkd.checks import all_checks

HERE = Path(__file__).parent
SHOWN = [
    *("image", "build-metadata", "marker", "provides", "model", "flags", "container-spec", "secret"),
    *("ghost-path", "exit-loop", "second-supervisor", "disk", "stray", "port", "open-endpoint"),
    *("memory", "swap", "pressure", "shm"),
    *("caches", "gpu", "link", "clock", "parity", "boot", "drift"),
]
"""The order in which people know them; a new one may stand anywhere between."""


def test_every_file_of_the_folder_is_a_check_that_is_shown_in_its_place() -> None:
    (folder,) = map(Path, sparkd.checks.__path__)
    assert len(all_checks()) == len([*folder.glob("*.py")]) - 1, "all but __init__"
    codes = [check.code for check in all_checks()]
    assert [code for code in codes if code in SHOWN] == SHOWN
    assert len({check.order for check in all_checks()}) == len(codes), "two checks have the same `order`"


@pytest.fixture(scope="module")
def seen() -> Any:
    where = [HERE, HERE.parent / "status", HERE.parents[1], *map(Path, sys.path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, where))}
    argv = [sys.executable, str(HERE / "one_more_check.py")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_file_more_is_listed_where_it_says(seen: Any) -> None:
    codes = [check.code for check in all_checks()]
    assert seen["listed"] == ["image", "full-moon", *codes[1:]]
    assert "The moon is not full." in seen["shown"]


def test_one_file_more_is_run_and_counted_in_the_status(seen: Any) -> None:
    assert seen["found"] == [
        ["full-moon", "spark1", "warn", "the moon is full"],
        ["full-moon", "spark2", "ok", ""],
    ]
    assert seen["status"] == {"ok": 1, "warn": 1, "fail": 0, "unknown": 0}


def test_one_file_more_has_a_section_in_the_docs_and_a_level_in_the_configuration(seen: Any) -> None:
    assert "| [`full-moon`](#full-moon) | warn | The moon is not full. |" in seen["docs"]
    assert "## full-moon\n\nThe moon: a check that sparkd does not have" in seen["docs"]
    assert [schema[1] for schema in seen["schemas"]] == ["full-moon", "full-moon"]
    assert seen["refused"] == []
