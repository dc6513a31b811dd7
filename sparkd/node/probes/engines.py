"""/proc -> every process that looks like an engine's, in whatever control group, one a line.

`PID PPID START_TICKS STATE RSS_BYTES OWNER AGE_S PORTS MARK TITLE`. OWNER is the container id or unit of its control
group, PORTS what it listens on, MARK `OWNER/DEPLOYMENT/GENERATION` of the rank that it or a parent in the same control
group was started as, outside of living containers; each `-` where there is none. A title proves nothing: whose a process
is, the head decides by OWNER and MARK.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

from sparkd.node import cgroups, procfs, tcp
from sparkd.node.recognised import is_engine

MARKS = tuple(f"SPARKD_{name}=".encode("ascii") for name in ("OWNER", "DEPLOYMENT", "GENERATION"))
MAX_TITLE_BYTES = 8192
MAX_PARENTS = 32
ANY_PORT = range(1, 65536)


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    found = {}
    for pid in procfs.pids():
        try:
            words = procfs.read(f"/proc/{pid}/cmdline", MAX_TITLE_BYTES).decode("utf-8", "replace").split("\0")
        except procfs.GONE:
            continue
        if is_engine(words):
            found[pid] = " ".join(words)
    ports = _ports(found) if found else {}
    lines = []
    for pid, title in found.items():
        try:
            lines.append(_line(pid, title, ports.get(pid, [])))
        except procfs.GONE:
            continue
    return "".join(lines)


def _line(pid: str, title: str, ports: list[int]) -> str:
    stat = procfs.stat(pid)
    owner = cgroups.owner(pid)
    uptime_s = float(procfs.read("/proc/uptime").split()[0])
    age_s = max(0.0, uptime_s - stat.start_ticks / os.sysconf("SC_CLK_TCK"))
    listens = ",".join(map(str, sorted(ports))) or "-"
    return (
        f"{pid} {stat.ppid} {stat.start_ticks} {stat.state} {stat.rss_bytes} {owner} "
        f"{age_s:.0f} {listens} {_mark(pid, owner) or '-'} {procfs.shown(title, stat)}\n"
    )


def _mark(pid: str, owner: str) -> Optional[str]:
    """Of the process, or else of the nearest parent in the same control group that still has it readable."""
    if cgroups.in_container(pid):
        return None
    for _ in range(MAX_PARENTS):
        try:
            if cgroups.owner(pid) != owner:
                return None
            mark = _marked(procfs.read(f"/proc/{pid}/environ"))
            parent = procfs.stat(pid).ppid
        except (*procfs.GONE, PermissionError):
            return None
        if mark or parent <= 1:
            return mark
        pid = str(parent)
    return None


def _marked(environ: bytes) -> Optional[str]:
    pairs = environ.split(b"\0")
    values = [next((pair[len(mark) :] for pair in pairs if pair.startswith(mark)), b"") for mark in MARKS]
    text = b"/".join(values).decode("utf-8", "replace")
    return text if all(values) and text.isprintable() and " " not in text else None


def _ports(pids: Mapping[str, str]) -> dict[str, list[int]]:
    """pid -> ports that it listens on."""
    listening = {row.inode: row.local_port for row in tcp.rows(ANY_PORT) if row.state == "LISTEN"}
    found: dict[str, set[int]] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
        except (*procfs.GONE, PermissionError):  # ended, a descriptor closed meanwhile, or (the demo) not ours to read
            continue
        inodes = (int(link[8:-1]) for link in links if link.startswith("socket:["))
        found[pid] = {listening[inode] for inode in inodes if inode in listening}
    return {pid: sorted(ports) for pid, ports in found.items()}
