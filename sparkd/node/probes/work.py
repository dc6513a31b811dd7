"""/proc -> what the processes of given containers and units have done so far, one of these a line.

`OWNER CPU_MS IO_BYTES`: CPU time in milliseconds, with that of children that ended; bytes that were read and written, through
the page cache or (weights that are mapped) by the disk. A figure says nothing alone: it is that it moves. Asked only while
a start is under way; one without processes has no line.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import arguments, procfs
from sparkd.node.probes.processes import CONTAINER, UNIT, Wanted

COUNTED = (b"rchar", b"wchar", b"read_bytes")
"""Of /proc/PID/io. `write_bytes` is what `wchar` was, later."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    containers = arguments.items(args, "containers", CONTAINER)
    units = arguments.items(args, "units", UNIT)
    names = tuple(name.encode("ascii") for name in containers + units)
    wanted = Wanted(containers, frozenset(units), names, frozenset())
    done: dict[str, tuple[int, int]] = {}
    for pid in procfs.pids() if names else ():
        try:
            owner = wanted.owner(procfs.read_record(f"/proc/{pid}/cgroup"))
            if owner:
                cpu_ms, io_bytes = done.get(owner, (0, 0))
                done[owner] = (cpu_ms + _cpu_ms(pid), io_bytes + _io_bytes(pid))
        except procfs.GONE:  # ended while we looked
            continue
    return "".join(f"{owner} {cpu_ms} {io_bytes}\n" for owner, (cpu_ms, io_bytes) in done.items())


def _cpu_ms(pid: str) -> int:
    """Fields 14 to 17 of proc(5): a shell that waits in a loop does its work in children that have ended."""
    fields = procfs.read_record(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) * 1000 // os.sysconf("SC_CLK_TCK")


def _io_bytes(pid: str) -> int:
    try:
        lines = procfs.read(f"/proc/{pid}/io").split(b"\n")
    except PermissionError:  # another user's process, for a service without root (the demo)
        return 0
    found = dict(line.partition(b": ")[::2] for line in lines)
    return sum(int(found.get(name, b"0")) for name in COUNTED)
