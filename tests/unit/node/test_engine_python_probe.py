"""Which Python runs a program, and that whatever is installed there anew, or patched by hand, has other stamps."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sparkd.facts import engine_python as fact
from sparkd.node import regular
from sparkd.node.probes import engine_python

PACKAGES = "lib/python3.12/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    files = {
        "bin/vllm": f"#!{tmp_path}/bin/python3\n",
        "bin/short": "#!/usr/bin/env python3\n",
        "bin/shell": "#!/bin/sh\n",
        f"{PACKAGES}/vllm/envs.py": "A = 1\n",
        f"{PACKAGES}/vllm/other.py": "\n",
        f"{PACKAGES}/vllm-0.32.0.dist-info/RECORD": "vllm/envs.py,,\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin/python3").symlink_to("/bin/sh")  # as a venv's: a link, which leads out of it
    return tmp_path


def look(venv: Path, *programs: str, **changes: Any) -> fact.EnginePython:
    args = {
        "programs": [str(venv / one) for one in programs or ("bin/vllm",)],
        "folders": [str(venv / "bin")],
        "user": getpass.getuser(),
        "files": ["vllm-*.dist-info/RECORD", "vllm/envs.py"],
    }
    return fact.parse(engine_python.probe({**args, **changes}, 1.0))


def stamped(found: fact.EnginePython) -> list[str]:
    return [line.rpartition("/")[2] for line in found.stamps]


@pytest.mark.parametrize("program", ["bin/vllm", "bin/short", "bin/python3"])
def test_the_python_is_the_venvs_and_its_packages_are_stamped(venv: Path, program: str) -> None:
    found = look(venv, "bin/none", program)
    assert found.path == f"{venv}/bin/python3"
    assert stamped(found)[-2:] == ["RECORD", "envs.py"]
    assert found.version == "0.32.0"


@pytest.mark.parametrize("program", ["bin/shell", "bin/none"])
def test_a_program_without_a_python_has_none(venv: Path, program: str) -> None:
    assert look(venv, program) == fact.EnginePython()


@pytest.mark.parametrize("name", ["bin/vllm", f"{PACKAGES}/vllm/envs.py", f"{PACKAGES}/vllm-0.32.0.dist-info/RECORD"])
def test_another_file_is_another_engine(venv: Path, name: str) -> None:
    before = look(venv)
    os.utime(venv / name, ns=(1, 1))
    assert before != look(venv)


def test_what_does_not_count_changes_nothing(venv: Path) -> None:
    before = look(venv)
    os.utime(venv / PACKAGES / "vllm/other.py", ns=(1, 1))
    (venv / PACKAGES / "vllm/__pycache__").mkdir()
    assert before == look(venv)


def test_sources_of_an_editable_installation_and_of_a_path_count(venv: Path) -> None:
    for name in ("editable", "path"):
        (venv / name / "vllm").mkdir(parents=True)
        (venv / name / "vllm/envs.py").write_text("")
    (venv / PACKAGES / "__editable__.vllm.pth").write_text(f"import this\n{venv}/editable\n{venv}/gone\n")
    found = look(venv, path=[str(venv / "path")])
    assert [one.split(" ")[2] for one in found.stamps if one.endswith("envs.py")] == [
        f"{venv}/{folder}/vllm/envs.py" for folder in ("path", PACKAGES, "editable")
    ]


def test_packages_that_name_one_full_folder_over_and_over_cost_one_look_at_it(
    venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three thousand lines of `.pth` and a folder of two thousand names once kept a thread of root busy for hours."""
    monkeypatch.setattr(engine_python, "MAX_STAMPS", 5)
    for number in range(20):
        (venv / f"full/vllm-{number}.dist-info").mkdir(parents=True)
        (venv / f"full/vllm-{number}.dist-info/RECORD").touch()
        (venv / PACKAGES / f"{number}.pth").write_text(f"{venv}/full\n" * 150)
    looked: list[str] = []
    matching = regular.matching

    def counted(folder: str, *pattern: Any) -> list[str]:
        looked.append(folder)
        return matching(folder, *pattern)

    monkeypatch.setattr(regular, "matching", counted)
    assert len(look(venv).stamps) == 5
    assert looked.count(f"{venv}/full") == 2


def test_an_installation_of_a_thousand_folders_is_refused(venv: Path) -> None:
    for number in range(engine_python.MAX_PLACES + 1):
        (venv / f"other/{number}").mkdir(parents=True)
    lines = [f"{venv}/other/{number}\n" for number in range(engine_python.MAX_PLACES + 1)]
    for part in range(0, len(lines), 50):
        (venv / PACKAGES / f"{part}.pth").write_text("".join(lines[part : part + 50]))
    with pytest.raises(regular.TooMuch, match="more than 200 folders of packages"):
        look(venv)


def test_a_look_that_nobody_waits_for_any_more_ends(venv: Path) -> None:
    args = {"programs": [str(venv / "bin/vllm")], "folders": [], "user": getpass.getuser(), "files": ["vllm/envs.py"]}
    with pytest.raises(TimeoutError):
        engine_python._look(args, time.monotonic() - 1)
