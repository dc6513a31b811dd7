"""An engine from a folder of the tests, seen wherever sparkd knows of engines: to add one, nothing else has to be touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "made_up/seen.py"


@pytest.fixture(scope="module")
def seen() -> Any:
    """In a process of its own: packages are searched once, when they are imported."""
    places = (ROOT, ROOT / "tests", ROOT / "tests/unit")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(
        [sys.executable, PROGRAM], env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_deployment_may_name_it_and_is_rendered_by_it(seen: Any) -> None:
    found = seen["configuration"]
    assert found["engine"] == "toy"
    assert found["argv"] == [["toy-server", "/m", "--seat", str(rank), "--springs", "2"] for rank in (0, 1)]
    assert found["address"] == "10.0.0.2"
    assert found["memory"] == [7 << 30, "free", "7 GiB of springs"]


def test_config_check_judges_by_it_and_its_schema_and_docs_name_it(seen: Any) -> None:
    found = seen["configuration"]
    (refused,) = found["refused"]
    assert "`--seat` is not for `args`" in refused
    assert "the order of `nodes:` is the seat" in refused
    assert sorted(found["enum"]) == ["toy", "vllm"]
    assert found["documented"]


def test_it_is_asked_on_its_own_paths(seen: Any) -> None:
    assert seen["asked"] == ["/toy/alive", "/toy/numbers", "/toy/play"]


def test_scripts_and_images_of_it_are_recognised(seen: Any) -> None:
    assert seen["imported"] == {"engine": "toy", "rank": 1, "entry": "toy", "args": {"tune": "x"}}


def test_a_node_recognises_its_processes_and_what_starts_them(seen: Any) -> None:
    assert seen["node"] == {"engine": True, "main": True, "words": "toy-server", "about": True}


def test_what_it_logs_is_judged_by_its_kind(seen: Any) -> None:
    assert seen["judged"] == {"said": ["1:spring-broke"], "since": True}
