"""TCP sockets on given ports, with the processes that hold them, one a line.

`STATE LOCAL_IP LOCAL_PORT REMOTE_IP REMOTE_PORT TX_QUEUE RETRANSMITS INODE PID|-`. A widowed rank shows as
CLOSE_WAIT on its master port (vllm-project/vllm#32136), a silent peer as a send queue that is never acknowledged.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Mapping

from sparkd.node import arguments, procfs, tcp

OWNED_STATES = ("LISTEN", "CLOSE_WAIT")
"""Only these are worth the search for an owner: who serves the port, and who was widowed."""

SEARCH_AGAIN_S = 30.0
MAX_KEPT = 1024


class Owners:
    """Socket inode -> pid. Found by a walk over all descriptors, kept, and verified by one readlink when it is used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[int, str] = {}
        self._missed: dict[int, float] = {}

    def of(self, inodes: frozenset[int]) -> dict[int, str]:
        with self._lock:
            now = time.monotonic()
            links = {inode: link for inode, link in self._links.items() if inode in inodes and _holds(link, inode)}
            self._missed = {inode: at for inode, at in self._missed.items() if now - at < SEARCH_AGAIN_S}
            missing = inodes - links.keys() - self._missed.keys()
            if missing:
                links.update(_search(missing))
                # A socket of the kernel, or one sent along and not yet received, has no owner: no walk in every look.
                self._missed.update(dict.fromkeys(missing - links.keys(), now))
            self._links = {**self._links, **links} if len(self._links) < MAX_KEPT else links
            return {inode: link.split("/")[2] for inode, link in links.items()}


OWNERS = Owners()


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    rows = tcp.rows(arguments.ports(args, "ports"))
    owners = OWNERS.of(frozenset(row.inode for row in rows if row.state in OWNED_STATES and row.inode))
    return "".join(" ".join(map(str, row)) + f" {owners.get(row.inode, '-')}\n" for row in rows)


def _search(inodes: frozenset[int]) -> dict[int, str]:
    """inode -> /proc/PID/fd/N; the lowest pid where a socket is shared."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, str] = {}
    for pid in sorted(procfs.pids(), key=int):
        for link in _descriptors(pid):
            inode = wanted.get(_target(link))
            if inode and inode not in found:
                found[inode] = link
        if len(found) == len(wanted):
            break
    return found


def _descriptors(pid: str) -> list[str]:
    folder = f"/proc/{pid}/fd"
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except (*procfs.GONE, PermissionError):  # another user's process, for a service without root: its sockets stay `-`
        return []


def _holds(link: str, inode: int) -> bool:
    return _target(link) == f"socket:[{inode}]"


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except (*procfs.GONE, PermissionError):
        return ""
