"""The program that is run inside an image, with a Python of ours and a vLLM of a few lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkd.background.parser_interview import script
from sparkd.engines.flags import parse_table

SCRIPT = script("vllm") or ""

PARSER = """
import argparse, json
print("noise on stdout")
def parse_type(function):
    def _parse_type(word): return function(word)
    return _parse_type
def make_arg_parser(parser):
    group = parser.add_argument_group("Frontend")
    group.add_argument("--tool-call-parser", "-tc", type=str)
    group.add_argument("--dtype", choices=["auto", "half"], default="auto")
    group.add_argument("--json", type=parse_type(json.loads))
    group.add_argument("--eager", action=argparse.BooleanOptionalAction, default=False)
    return parser
"""
ENVS = """
import os
environment_variables = {
    "VLLM_SET": lambda: os.environ.get("VLLM_SET", "unset"),
    "VLLM_PLACE": lambda: "/somewhere",
    "VLLM_BROKEN": lambda: 1 / 0,
    "CUDA_VISIBLE_DEVICES": lambda: os.environ.get("CUDA_VISIBLE_DEVICES"),
}
"""
FILES = {
    "version": "__version__ = '0.9.9+cu130'",
    "platforms/__init__": "class P: device_type = ''\ncurrent_platform = P()",
    "utils/argparse_utils": "import argparse\nFlexibleArgumentParser = argparse.ArgumentParser",
    "entrypoints/openai/cli_args": PARSER,
    "envs": ENVS,
    "tool_parsers/__init__": (
        "class ToolParserManager:\n    @classmethod\n    def list_registered(cls): return ['qwen', 'hermes']"
    ),
}


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A folder of packages with an older vLLM in it: its parser is where 0.31 has it, and no GPU is there."""
    for name, text in FILES.items():
        path = tmp_path / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(packages: Path, seconds: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", SCRIPT, seconds]
    given = {**os.environ, "PYTHONPATH": str(packages), **env}
    # In a folder of its own: `-c` would import from the one we are in.
    return subprocess.run(argv, env=given, cwd=packages, capture_output=True, text=True, timeout=60, check=False)


def test_it_prints_the_parser_and_nothing_else(vllm: Path) -> None:
    done = run(vllm, "60", VLLM_SET="by the image", CUDA_VISIBLE_DEVICES="0")
    assert (done.returncode, "noise on stdout" in done.stderr) == (0, True), done.stderr
    table = parse_table(done.stdout, own=True)
    assert (table.engine, table.version, list(table.flags)) == (
        "vllm",
        "0.9.9",
        ["dtype", "eager", "json", "tool-call-parser"],
    )
    assert table.flags["tool-call-parser"].choices == ("hermes", "qwen")
    assert table.flags["tool-call-parser"].aliases == ("-tc",)
    assert (table.flags["json"].kind, table.flags["eager"].kind) == ("json", "bool")
    assert table.env == {"VLLM_SET": "unset", "VLLM_WORKER_MULTIPROC_METHOD": "spawn", "CUDA_VISIBLE_DEVICES": None}
    assert table.variables >= {"VLLM_PLACE", "VLLM_BROKEN"}


def test_it_ends_by_itself_when_an_import_hangs(vllm: Path) -> None:
    (vllm / "vllm/platforms/__init__.py").write_text("import time\ntime.sleep(600)")
    assert run(vllm, "1").returncode == -signal.SIGALRM


def test_a_python_without_the_engine_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "60")
    assert (done.returncode, done.stdout) == (1, "")
    assert "No module named 'vllm'" in done.stderr


def test_a_folder_called_vllm_where_it_runs_is_not_the_engine(vllm: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "60"], cwd=vllm, capture_output=True, text=True, timeout=60, check=False
    )
    assert "No module named 'vllm'" in done.stderr


def test_the_shipped_table_is_of_this_script() -> None:
    text = (Path(__file__).parents[3] / "sparkd/engines/vllm/flags-0.32.json").read_text("utf-8")
    raw = json.loads(text)
    assert raw["schema"] == 2
    assert raw["flags"]["reasoning-parser"]["choices"]
    assert raw["flags"]["compilation-config"]["fields"]["compile_cache_save_format"] == ["binary", "unpacked"]
    assert "VLLM_HOST_IP" in raw["variables"]
