"""/proc -> what every engine may do for RDMA, by its main process: `PID OWNER MEMLOCK IPC_LOCK DEVICES` a line.

OWNER is the container id or unit of its control group, or `-`. MEMLOCK is its soft limit of locked memory in bytes, or
`unlimited`; IPC_LOCK `yes` where it has the capability that makes the limit not count. DEVICES are the names in
/dev/infiniband as it sees them, `-` for none, `?` where nobody may look.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from sparkd.node import cgroups, procfs, regular
from sparkd.node.probes import programs

MEMLOCK = re.compile(r"^Max locked memory\s+(\S+)", re.MULTILINE)
CAPABILITIES = re.compile(r"^CapEff:\s+([0-9a-f]+)$", re.MULTILINE)
CAP_IPC_LOCK = 14
FOLDER = "/dev/infiniband"


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    lines = []
    for pid in programs.mains():
        try:
            lines.append(_line(pid))
        except (*procfs.GONE, PermissionError):  # ended, or (the demo) another user's
            continue
    return "".join(lines)


def _line(pid: str) -> str:
    limits, status = (procfs.read(f"/proc/{pid}/{name}").decode("utf-8", "replace") for name in ("limits", "status"))
    memlock, capabilities = MEMLOCK.search(limits), CAPABILITIES.search(status)
    locks = capabilities is not None and int(capabilities.group(1), 16) >> CAP_IPC_LOCK & 1
    limit = memlock.group(1) if memlock else "unlimited"
    return f"{pid} {cgroups.owner(pid)} {limit} {'yes' if locks else 'no'} {_devices(pid)}\n"


def _devices(pid: str) -> str:
    try:
        return ",".join(regular.names(f"/proc/{pid}/root{FOLDER}")) or "-"
    except (FileNotFoundError, NotADirectoryError):
        return "-"
    except OSError:
        return "?"
