"""/dev/shm -> the engines' segments, one `NAME BYTES MTIME DEV INODE HOLDERS` a line."""

from __future__ import annotations

from typing import Any, Mapping

from sparkd.node import shm


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    found = shm.segments()
    held = shm.holders(found)
    return "".join(
        f"{each.name} {each.size_bytes} {each.mtime:.3f} {each.dev} {each.inode} {len(held[each.dev, each.inode])}\n"
        for each in found
    )
