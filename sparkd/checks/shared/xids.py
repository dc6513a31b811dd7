"""NVIDIA's numbered errors of the kernel log: which of them a start cannot get over, and what a person does about each."""

from __future__ import annotations

import re
from typing import NamedTuple

from sparkd.facts.gpu import Xid

REBOOT = "reboot {node}; if it comes back, shut it down and take its power for a minute"
POWER = "shut {node} down, take its power for a minute, and start it again: a reboot often does not bring the GPU back"
REPAIR = "reboot {node}; if it comes back, the memory is bad: run the vendor's diagnosis and have it exchanged"


class XidClass(NamedTuple):
    """`fatal`: held for a person. The others are told; engines go on after them, or are started again as for any crash."""

    text: str
    fix: str
    fatal: bool = True


XIDS: dict[int, XidClass] = {
    48: XidClass("double-bit ECC error", REPAIR),
    62: XidClass("the GPU's power controller has halted", POWER),
    63: XidClass("bad memory was set aside", REBOOT, fatal=False),
    64: XidClass("bad memory could not be set aside", REPAIR),
    79: XidClass("the GPU has fallen off the bus", POWER),
    92: XidClass("many corrected memory errors", REPAIR, fatal=False),
    94: XidClass("contained ECC error", REBOOT, fatal=False),
    95: XidClass("uncontained ECC error", REPAIR),
    119: XidClass("the GPU's system processor does not answer", REBOOT),
    120: XidClass("error in the GPU's system processor", REBOOT),
    140: XidClass("ECC error that could not be corrected", REPAIR),
    143: XidClass("the GPU could not be initialised", POWER),
    154: XidClass("the GPU wants a reset or a reboot", REBOOT),
}
"""NVIDIA's Xid catalogue; 79 and 119 are what reports of dead boxes show (open-gpu-kernel-modules#446, #1151), 94 an engine
that died of its memory and ran on (vllm-backport#62). What is not here (13, 31, 43, 45 …) is the program's own."""
_RECOVERY = re.compile(r"recovery action changed .* to 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")


def known(xid: Xid) -> XidClass | None:
    """Its class, None for one that says nothing of the hardware. 154 says of itself whether anything is wanted."""
    found = XIDS.get(xid.number)
    action = _RECOVERY.search(xid.text) if xid.number == 154 else None
    return None if action is not None and action["action"] == "None" else found
