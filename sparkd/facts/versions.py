"""`versions` probe -> what of the node's software and firmware may differ from the other nodes'."""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.facts import Fact, FactError, lines

Versions = Mapping[str, str]
"""`kernel`, `architecture`, and where the node has it `driver`, `os`, `product`, `firmware`."""


def parse(text: str) -> dict[str, str]:
    """Names this version does not know are kept: they are compared like the others."""
    found = dict(line.split(" ", 1) for line in lines(text) if " " in line)
    for name in ("kernel", "architecture"):
        if name not in found:
            raise FactError(f"no {name} in it")
    return found


VERSIONS: Fact[Versions] = Fact("versions", parse)
