"""Fixtures of the demo's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .demo_world import processes


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR of its own, so that no test meets another demo; it must be empty in the end, nobody work in it, and the
    machine's shared memory be as before."""
    # Not tmp_path: a Unix socket's path must stay short.
    with tempfile.TemporaryDirectory(prefix="sd-") as made:
        monkeypatch.setenv("TMPDIR", made)
        yield Path(made)
        assert processes(made) == {}
        assert list(Path(made).iterdir()) == []
