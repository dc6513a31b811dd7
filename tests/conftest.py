"""What all tests share."""

from __future__ import annotations

import signal

import pytest

# A test run started in the background of a shell ignores SIGINT, and so would every program that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncssh and aiodocker need asyncio."""
    return "asyncio"
