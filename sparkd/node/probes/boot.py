"""The kernel and the clock -> boot identity, uptime, host name and the node's wall time, one `name value` a line."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Mapping

from sparkd.node import procfs


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    identity = procfs.boot_identity()
    uptime_s = procfs.read("/proc/uptime").split()[0].decode("ascii")
    return (
        f"boot_id {identity.boot_id}\n"
        f"pid1_ticks {identity.pid1_ticks}\n"
        f"uptime_s {uptime_s}\n"
        f"hostname {socket.gethostname()}\n"
        f"clk_tck {os.sysconf('SC_CLK_TCK')}\n"
        f"now {time.time():.3f}\n"
    )
