"""Sizes as people write them (`64g`, `6GiB`, `512M`) -> bytes."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes; every unit is a power of 1024, as Docker has it. Raises ValueError for anything else than a number with a
    unit."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size")
    try:
        return int(float(match[1]) * 1024 ** _POWER[match[2].lower()])
    except OverflowError:
        raise ValueError(f"{text[:20]!r}… is more than there can be") from None


def spoken(count: int) -> str:
    """Bytes in GiB, the unit that memory on GB10 is thought in; small ones in MiB."""
    return f"{count / 2**30:.1f} GiB" if abs(count) >= 1 << 30 else f"{count / 2**20:.0f} MiB"
