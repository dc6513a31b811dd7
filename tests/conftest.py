"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# A test run started in the background of a shell ignores SIGINT, and so would every program that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncssh and aiodocker need asyncio."""
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Split the tests for `-n 2`: the lab is one, waits most of its time and goes first; the rest runs beside it, a folder at a time."""
    for item in items:
        folder = item.path.parent.relative_to(TESTS)
        item.add_marker(pytest.mark.xdist_group("lab" if item.get_closest_marker("lab") else str(folder)))
    items.sort(key=lambda item: item.get_closest_marker("lab") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SPARKD_NO_SKIP=1, as in CI, a test that skips has failed: its reason is something that CI has to install."""
    report = yield
    if report.skipped and os.environ.get("SPARKD_NO_SKIP") == "1":
        report.outcome = "failed"
    return report
