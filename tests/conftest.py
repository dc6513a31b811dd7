"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

# A test run started in the background of a shell ignores SIGINT, and so would every program that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncssh and aiodocker need asyncio."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SPARKD_NO_SKIP=1, as in CI, a test that skips has failed: its reason is something that CI has to install."""
    report = yield
    if report.skipped and os.environ.get("SPARKD_NO_SKIP") == "1":
        report.outcome = "failed"
    return report
