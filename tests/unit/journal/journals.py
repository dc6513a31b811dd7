"""A journal that is open for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sparkd.journal import Journal


@asynccontextmanager
async def journal(folder: Path, **settings: Any) -> AsyncIterator[Journal]:
    one = Journal(folder, **settings)
    await one.open()
    try:
        yield one
    finally:
        await one.aclose()
