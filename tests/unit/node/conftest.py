from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .service import Connection, Service

SOURCE = Path(__file__).parents[3] / "sparkd"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What /usr/lib/sparkd holds on a node: the package's first file and the node service, nothing else."""
    root = tmp_path_factory.mktemp("lib")
    (root / "sparkd").mkdir()
    shutil.copy(SOURCE / "__init__.py", root / "sparkd")
    shutil.copytree(SOURCE / "node", root / "sparkd/node", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture
def unstarted(installed: Path) -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="sparkdtest") as folder:  # short: a socket's path has at most 107 bytes
        service = Service(installed, Path(folder))
        yield service
        if service.process is not None and service.process.poll() is None:
            service.process.kill()
            service.process.wait()


@pytest.fixture
def service(unstarted: Service) -> Service:
    unstarted.start()
    return unstarted


@pytest.fixture
def node(service: Service) -> Iterator[Connection]:
    """A connection of the owner."""
    with service.claimed() as connection:
        yield connection
