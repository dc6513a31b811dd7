"""A signal to a process that is proven to be the one that was meant: same boot, same pid, same start."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, Mapping, Optional

from sparkd.node import arguments, procfs
from sparkd.node.node import Node
from sparkd.node.refusal import Refusal

ALLOWED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGKILL, signal.SIGCONT)


def send_signal(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> str:
    """`sent` or `gone`; Refusal(refused) when the pid belongs to another process by now (habitat-sh/habitat#4578)."""
    pid = arguments.integer(args, "pid", 2, 1 << 22)
    start_ticks = arguments.integer(args, "start_ticks", 0, 1 << 62)
    number = _signal(args.get("signal"))
    _same_boot(node, args)
    if pid == os.getpid():
        raise Refusal("refused", f"process {pid} is the node service itself")
    try:
        _verify(pid, start_ticks)
        _send(pid, start_ticks, number)
    except procfs.GONE:
        return "gone"
    return "sent"


def _signal(wanted: object) -> signal.Signals:
    """By name (`SIGKILL`) or number."""
    for allowed in ALLOWED:
        if wanted == allowed.name or (type(wanted) is int and wanted == allowed):
            return allowed
    raise Refusal("usage", f"signal must be one of {', '.join(allowed.name for allowed in ALLOWED)}")


def _same_boot(node: Node, args: Mapping[str, Any]) -> None:
    meant = (arguments.text(args, "boot_id"), arguments.integer(args, "pid1_ticks", 0, 1 << 62))
    if meant != node.boot:
        raise Refusal("refused", "the process was seen in another boot of this node")


def _verify(pid: int, start_ticks: int) -> None:
    """Raises one of procfs.GONE when the pid is free."""
    found = procfs.stat(pid)
    if found.start_ticks != start_ticks:
        started = f"started at tick {found.start_ticks}, not {start_ticks}"
        raise Refusal("refused", f"process {pid} {started}: the pid was reused")


def _send(pid: int, start_ticks: int, number: signal.Signals) -> None:
    """A descriptor holds on to the process, so nothing can slip in between looking again and sending."""
    descriptor = _pidfd(pid)
    if descriptor is None:
        os.kill(pid, number)
        return
    try:
        _verify(pid, start_ticks)
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _pidfd(pid: int) -> Optional[int]:
    """None on a kernel before 5.3: there the look just before is the best there is."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return None
