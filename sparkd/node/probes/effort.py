"""What the processes of given containers and units, and the way to the other nodes, have done so far: figures that only grow.

`at SECONDS TICKS_PER_SECOND` on the node's own clock since boot; `cpu PID START_TICKS OWNER TICKS CHILD_TICKS COMM` for each
process (CHILD_TICKS: of its children that ended); `net NAME RX_BYTES TX_BYTES` of the interface with the given address; `rdma
DEVICE/PORT RX_BYTES TX_BYTES` of every RDMA port, whose traffic no interface counts. Two answers and the time between them
tell how hard they work.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Iterator, Mapping, Optional

from sparkd.node import arguments, command, procfs
from sparkd.node.probes import links, processes

RDMA_UNIT_BYTES = 4
"""port_rcv_data and port_xmit_data count four bytes as one (the kernel's Documentation/ABI/stable/sysfs-class-infiniband)."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    address = arguments.text(args, "address", default="")
    at = f"at {time.clock_gettime(time.CLOCK_BOOTTIME):.3f} {os.sysconf('SC_CLK_TCK')}\n"
    return "".join([at, *_processes(processes.wanted(args)), *_interface(address, deadline_s), *_devices()])


def _processes(wanted: processes.Wanted) -> Iterator[str]:
    for pid in procfs.pids() if wanted.names else ():
        try:
            owner = wanted.owner(procfs.read_record(f"/proc/{pid}/cgroup"))
            if owner:
                yield f"cpu {_line(pid, owner)}\n"
        except procfs.GONE:  # ended while we looked
            continue


def _line(pid: str, owner: str) -> str:
    found = procfs.stat(pid)
    spent = procfs.spent(pid)
    return f"{pid} {found.start_ticks} {owner} {spent.ticks} {spent.child_ticks} {procfs.printable(found.comm) or '-'}"


def _interface(address: str, deadline_s: float) -> Iterator[str]:
    """Nothing where there is no such address: then this way tells nothing."""
    name = _named(address, deadline_s) if address else None
    counted = _counters(f"{links.NET}/{name}/statistics", "rx_bytes", "tx_bytes") if name else None
    if counted:
        yield f"net {name} {counted[0]} {counted[1]}\n"


def _named(address: str, deadline_s: float) -> Optional[str]:
    """The interface that has it; None also without the tool, as in small containers."""
    try:
        finished = command.run(["ip", "-json", "address", "show"], deadline_s)
    except FileNotFoundError:
        return None
    for link in json.loads(finished.output) if not finished.status else ():
        if any(one.get("local") == address for one in link.get("addr_info", [])):
            return str(link["ifname"])
    return None


def _devices() -> Iterator[str]:
    for device in links.names(links.RDMA):
        for port in links.names(f"{links.RDMA}/{device}/ports"):
            counted = _counters(f"{links.RDMA}/{device}/ports/{port}/counters", "port_rcv_data", "port_xmit_data")
            if counted:
                received, sent = (RDMA_UNIT_BYTES * one for one in counted)
                yield f"rdma {device}/{port} {received} {sent}\n"


def _counters(folder: str, received: str, sent: str) -> Optional[tuple[int, int]]:
    """None where one of them is not there, or is no number."""
    words = [links.word(f"{folder}/{name}") for name in (received, sent)]
    return (int(words[0]), int(words[1])) if all(word.isdigit() for word in words) else None
