"""One node's memory alone -> MemoryLook: two probes of the node service at the most, and nothing of Docker."""

from __future__ import annotations

import anyio

from sparkd.base import clock
from sparkd.base.errors import HostError, Late
from sparkd.facts.holders import HOLDERS
from sparkd.facts.memory import MEMINFO
from sparkd.model.machine import Holders, Memory
from sparkd.model.memory_trail import MemoryLook
from sparkd.observe.unknowns import NodeAccess, Reader, Unknowns


async def memory_look(name: str, access: NodeAccess, holders: bool, deadline_s: float) -> MemoryLook:
    """`holders`: also who has it, which costs the node some milliseconds. Takes no longer than the deadline; never raises for
    what could not be read."""
    asked = {fact.name: None for fact in (MEMINFO, *((HOLDERS,) if holders else ()))}
    probed, trouble = None, None
    try:
        with anyio.fail_after(deadline_s):
            await access.client.greet(deadline_s)
            probed = await access.client.probe(asked, deadline_s=deadline_s * 0.9)
    except HostError as error:
        trouble = error
    except TimeoutError:
        trouble = Late(name, f"its memory was not told within {deadline_s:g} s")
    read = Reader(Unknowns(), name, probed, trouble)
    memory = await read(MEMINFO)
    who = await read(HOLDERS) if holders else None
    return MemoryLook(
        clock.now(), memory if isinstance(memory, Memory) else None, who if isinstance(who, Holders) else None
    )
