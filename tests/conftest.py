"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

# A test run started in the background of a shell ignores SIGINT, and so would every program that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Nor is the width of the tester's terminal, which `-n 2` hands on, that of a program on a terminal of a test's own.
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)
# By itself structlog draws a traceback with frames and the values of all variables, which takes seconds.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncssh and aiodocker need asyncio."""
    return "asyncio"


# What starts real vLLM, and what fills, measures or judges the memory of the machine, which all nodes share: one after
# another. The rest of the lab's tests go on beside it, with a lab of their own.
MEMORY = {
    "test_asking",
    "test_checks",
    "test_checks_branches",
    "test_checks_memory",
    "test_drift",
    "test_lab",
    "test_memory_guard",
    "test_process_limits",
    "test_process_real",
    "test_real",
}


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """For `-n`: a worker tests a folder at a time. Of the lab there are two, each for half of its folder."""

    def _split_scope(self, nodeid: str) -> str:
        folder, _, module = nodeid.partition("::")[0].removesuffix(".py").rpartition("/")
        return f"{folder} {module in MEMORY}" if folder == "tests/lab" else folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    return ByFolder(config, log)


LONGEST = ("tests/lab", "tests/integration/demo", "tests/sim", "tests/unit/readers", "tests/integration/runtimes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The lab waits half of its time, so it goes first and all else is tested beside it; what takes longest is begun first."""
    begins = {folder: place for place, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: begins.get(item.nodeid.partition("::")[0].rpartition("/")[0], len(begins)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SPARKD_NO_SKIP=1, as in CI, a test that skips has failed: its reason is something that CI has to install."""
    report = yield
    if report.skipped and os.environ.get("SPARKD_NO_SKIP") == "1":
        report.outcome = "failed"
    return report
