"""Two acts that need more than this service may do: swap off, and emptying the cache folders of a deployment.

Both are fixed commands that systemd runs once, each in a unit with just the right it needs; the service itself stays
as it is. Where there is no systemd (the demo) they run as a child.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple

from sparkd.node import arguments, boot_memory, command, emptying, folders, mounts, procfs
from sparkd.node.node import Node
from sparkd.node.refusal import Refusal

ABSOLUTE = re.compile(r"/[^\n\0]*")
MARGIN = 1 << 30
"""What must stay available beside the pages that come back from swap."""
SYSTEM = re.compile(
    r"/(boot|bin|dev|etc|lib[^/]*|proc|run|sbin|sys|usr)(/.*)?|/var/lib/(docker|containerd|dpkg|apt)(/.*)?|/[^/]*/?"
)
"""No deployment keeps its caches here."""
UNIT = ("systemd-run", "--quiet", "--wait", "--collect", "--pipe", "--no-ask-password", "--service-type=exec")
CONFINED = (
    *("NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateNetwork=yes", "PrivateTmp=no"),
    *("MemoryMax=256M", "TasksMax=16"),  # it takes 10 MB, and 100 bytes for each name that a walk still has to enter
)


def swapoff(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, int]:
    """{before, after}: bytes of swap in use. Refused when the pages in it would not fit into memory."""
    swaps = _swaps()
    before = sum(swap.used for swap in swaps)
    available = boot_memory.figures()["MemAvailable"]
    if before and available < before + MARGIN:
        raise Refusal("refused", f"{before} bytes are swapped out and only {available} of memory are available")
    if swaps:
        # By name: `-a` does not say why one stays. A swap file is opened for writing, and all is read-only there.
        files = [f"ReadWritePaths={_escaped(swap.path)}" for swap in swaps if swap.is_file]
        argv = ["swapoff", *(swap.path for swap in swaps)]
        _run(argv, ("CapabilityBoundingSet=CAP_SYS_ADMIN", *files), deadline_s)
    return {"before": before, "after": sum(swap.used for swap in _swaps())}


def empty_caches(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, int]:
    """path -> bytes freed. Only what is in a folder goes, never the folder, never what a link leads to.

    Refused before anything is removed when one of them is no cache: a system's folder, one with model weights in it.
    """
    paths = arguments.items(args, "paths", ABSOLUTE)
    present = [path for path in paths if os.path.lexists(path)]
    held = {path: _checked(path, deadline_s / 4) for path in present}
    freed = dict.fromkeys(paths, 0)
    for path, (before, device, inode) in held.items():
        argv = [sys.executable, "-I", "-S", os.path.abspath(emptying.__file__), str(device), str(inode), path]
        _run(argv, (f"ReadWritePaths={_escaped(path)}",), deadline_s / 2)
        freed[path] = before - folders.held(path, deadline_s / 4).bytes
    return freed


def _checked(path: str, deadline_s: float) -> Tuple[int, int, int]:
    """Bytes in it, and its device and inode."""
    if os.path.realpath(path) != path or not os.path.isdir(path):
        raise Refusal("refused", f"{path} is no folder, or leads through a link")
    if SYSTEM.fullmatch(path):
        raise Refusal("refused", f"{path} is no folder for caches")
    try:
        status = os.lstat(path)
        found = folders.held(path, deadline_s)
    except OSError as error:
        raise Refusal("failed", f"{path} cannot be looked through: {error}") from None
    if found.weights:
        raise Refusal("refused", f"{path} holds model weights ({found.weights}): that is no cache")
    return found.bytes, status.st_dev, status.st_ino


class _Swap(NamedTuple):
    path: str
    is_file: bool
    used: int


def _swaps() -> List[_Swap]:
    rows = [line.split() for line in os.fsdecode(procfs.read("/proc/swaps")).splitlines()[1:]]
    return [_Swap(mounts.unescaped(row[0]), row[1] == "file", int(row[3]) * 1024) for row in rows]


def _run(argv: Sequence[str], rights: Sequence[str], deadline_s: float) -> None:
    properties = (*CONFINED, f"RuntimeMaxSec={deadline_s:g}s", *rights)
    under_systemd = os.path.isdir("/run/systemd/system")
    wrapped = [*UNIT, *(f"--property={one}" for one in properties), "--", *argv] if under_systemd else list(argv)
    try:
        finished = command.run(wrapped, deadline_s)
    except FileNotFoundError as missing:
        raise Refusal("failed", f"there is no {missing.filename} on this node") from None
    if finished.status:
        raise Refusal("failed", f"{' '.join(argv)[:200]}: {finished.errors.strip()[:300] or 'it failed'}")


def _escaped(path: str) -> str:
    """As one word of a unit's setting, where `%` begins a specifier."""
    quoted = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted}"'
