"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# A test run started in the background of a shell ignores SIGINT, and so would every program that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Nor is the width of the tester's terminal, which `-n 2` hands on, that of a program on a terminal of a test's own.
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncssh and aiodocker need asyncio."""
    return "asyncio"


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """For `-n 2`: a worker tests a folder at a time. The lab there is one of is one of them."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.partition("::")[0].rpartition("/")[0]
        return "lab" if folder in ("tests/lab", "tests/integration/runtimes") else folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    return ByFolder(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The lab waits most of its time, so it goes first and all else is tested beside it."""
    items.sort(key=lambda item: item.get_closest_marker("lab") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SPARKD_NO_SKIP=1, as in CI, a test that skips has failed: its reason is something that CI has to install."""
    report = yield
    if report.skipped and os.environ.get("SPARKD_NO_SKIP") == "1":
        report.outcome = "failed"
    return report
