"""/proc -> what the processes of given containers and units have done so far, one of these a line.

`OWNER CPU_MS IO_BYTES`: CPU time in milliseconds, with that of children that ended; bytes that were read and written, through
the page cache or (weights that are mapped) by the disk. A figure says nothing alone: it is that it moves. Asked only while
a start is under way; one without processes has no line.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import procfs
from sparkd.node.probes import processes

COUNTED = (b"rchar", b"wchar", b"read_bytes")
"""Of /proc/PID/io. `write_bytes` is what `wchar` was, later."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    wanted = processes.wanted(args)
    done: dict[str, tuple[int, int]] = {}
    for pid in procfs.pids() if wanted.names else ():
        try:
            owner = wanted.owner(procfs.read_record(f"/proc/{pid}/cgroup"))
            if owner:
                cpu_ms, io_bytes = done.get(owner, (0, 0))
                done[owner] = (cpu_ms + _cpu_ms(pid), io_bytes + _io_bytes(pid))
        except procfs.GONE:  # ended while we looked
            continue
    return "".join(f"{owner} {cpu_ms} {io_bytes}\n" for owner, (cpu_ms, io_bytes) in done.items())


def _cpu_ms(pid: str) -> int:
    """With its children that ended: a shell that waits in a loop does its work in those."""
    return sum(procfs.spent(pid)) * 1000 // os.sysconf("SC_CLK_TCK")


def _io_bytes(pid: str) -> int:
    try:
        lines = procfs.read(f"/proc/{pid}/io").split(b"\n")
    except PermissionError:  # another user's process, for a service without root (the demo)
        return 0
    found = dict(line.partition(b": ")[::2] for line in lines)
    return sum(int(found.get(name, b"0")) for name in COUNTED)
