"""Which Python runs a program, and that whatever is installed there anew, or patched by hand, has other stamps."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

import pytest

from sparkd.facts import engine_python as fact
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
