"""The lab as pytest fixtures: `lab` once a session, `cluster` clean for every test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .driver import Daemon, on_clean_nodes
from .nodes import Lab


def _unsupported() -> str | None:
    """Why the lab cannot run on this machine, in one sentence."""
    if os.uname().sysname != "Linux" or os.uname().machine != "x86_64":
        return "the lab needs Linux on x86-64 (vLLM's CPU build)"
    if os.geteuid() != 0:
        return "the lab needs root"
    if shutil.which("apt-get") is None:
        return "the lab needs a Debian machine"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is a lab test; and a test's time limit starts with the test, not with the building of the lab."""
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker("lab")
        limit = item.get_closest_marker("timeout")
        seconds = limit.args[0] if limit and limit.args else 300
        item.add_marker(pytest.mark.timeout(seconds, func_only=True), append=False)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The running lab, held for this session. Left running at the end: `python -m tests.lab down` removes it."""
    reason = _unsupported()
    if reason and os.environ.get("SPARKD_NO_SKIP") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    lab = Lab()
    with lab.exclusive():
        lab.up()
        yield lab


@pytest.fixture
def cluster(lab: Lab) -> Lab:
    """The lab with both nodes clean and healthy."""
    lab.reset()
    return lab


@pytest.fixture
def fast(lab: Lab) -> Daemon:
    """sparkd with the simulated engine on clean nodes; nothing of the deployment runs yet."""
    return on_clean_nodes(lab)


@pytest.fixture(scope="module")
def real(lab: Lab) -> Daemon:
    """sparkd with real vLLM on clean nodes, one group for the whole module: a start takes a minute."""
    return on_clean_nodes(lab, real=True)


@pytest.fixture(scope="module")
def _serving(lab: Lab) -> Daemon:
    daemon = on_clean_nodes(lab)
    daemon.start()
    return daemon


@pytest.fixture
def serving(_serving: Daemon) -> Daemon:
    """sparkd with the simulated engine, wanted up; one daemon for the module, made serving again before each test."""
    if not _serving.recovered():
        _serving.lab.reset()
        _serving.configure()
        _serving.up()
        _serving.start()
    return _serving
