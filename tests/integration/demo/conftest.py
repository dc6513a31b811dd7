"""Fixtures of the demo's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .demo_world import place


@pytest.fixture
def folder() -> Iterator[Path]:
    with place() as made:
        yield made
