"""The generated pages are current, and say something of every command and every key."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.manual import Page, pages
from docs.pages import PAGES, ROOT

from sparkd.settings.schema import cluster_schema, deployment_schema


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_page_is_current(path: Path) -> None:
    assert path.read_text("utf-8") == PAGES[path](), "run `make docs`"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_command_has_an_example(page: Page) -> None:
    examples = [line for block in page.examples for line in block.splitlines()]
    assert any(line.startswith(page.name) for line in examples), f"{page.name} shows no example of itself"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_command_and_option_is_explained(page: Page) -> None:
    assert page.prose
    assert all(says for _, says in page.options), page.options


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for section in (schema, *schema["$defs"].values()):
        yield from ((value["title"], value) for value in section["properties"].values())


@pytest.mark.parametrize("schema", [cluster_schema(), deployment_schema()], ids=["sparkd.yaml", "deployment"])
def test_every_key_has_a_meaning(schema: dict[str, Any]) -> None:
    """A field of sparkd/model/config.py without a text below it is a key that nobody can look up."""
    assert [title for title, value in properties(schema) if not value["description"]] == []


def test_the_manual_page_has_exit_codes_and_files_and_is_sound() -> None:
    text = (ROOT / "docs" / "sparkd.1").read_text("utf-8")
    assert re.findall(r"^\.SH (.*)$", text, re.MULTILINE) == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "FILES", "RULES", "ENVIRONMENT"),
    ]
    assert "/run/sparkd/sparkd.sock" in text
    if shutil.which("man") is None:
        pytest.skip("there is no man here to read the page with")
    command = ["man", "--warnings", "-E", "UTF-8", "-l", str(ROOT / "docs" / "sparkd.1")]
    read = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=True)
    assert read.stderr == ""
    assert "sparkd ctl restart [OPTIONS] [NAME]" in read.stdout
