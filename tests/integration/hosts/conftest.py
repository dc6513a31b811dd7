from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: a Unix socket's path must stay under 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="sd-") as path:
        yield Path(path)
