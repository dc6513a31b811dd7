"""Faults: each function breaks one thing at once and returns what mends it.

`with mgmt_cut(node): ...` or `fault = mgmt_cut(node)` and later `fault.undo()`. Mending twice, or after a reboot that
mended it already, does nothing. All of it works through the outer engine, so a node without network is still reachable.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType

from . import outer
from .nodes import Node

REBOOT_DEADLINE_S = 120.0


class Fault:
    """Something broken that can be mended once."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo: Callable[[], object] | None = undo

    def undo(self) -> None:
        """Mends it."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.undo()


class Cut(StrEnum):
    """How a network is cut: packets vanish (a dead switch), or the link goes down (a pulled cable)."""

    DROP = "drop"
    LINK = "link"


def mgmt_cut(node: Node) -> Fault:
    """The node's management network (SSH) swallows every packet, both ways. The fabric and the engine are untouched."""
    return _swallow(node, node.management_link)


def fabric_cut(node: Node, how: Cut = Cut.DROP) -> Fault:
    """The node's fabric (the engine's own traffic) is dead; SSH is fine."""
    if how is Cut.DROP:
        return _swallow(node, node.fabric_link)
    node.run(["ip", "link", "set", "dev", node.fabric_link, "down"])
    return Fault(lambda: _if_running(node, ["ip", "link", "set", "dev", node.fabric_link, "up"]))


def freeze(node: Node, pid: int) -> Fault:
    """SIGSTOP to a process, by its pid on the node; mended by SIGCONT (see also `thaw`)."""
    kill(node, pid, signal.SIGSTOP)
    return Fault(lambda: thaw(node, pid))


def thaw(node: Node, pid: int) -> None:
    """SIGCONT, if the process is still there."""
    _if_running(node, ["kill", "-CONT", str(pid)])


def kill(node: Node, pid: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Sends `sig` to a process by its pid on the node. Raises LabError when it is gone."""
    node.run(["kill", f"-{sig.value}", str(pid)])


def power_cut(node: Node) -> Fault:
    """The node is off at once, nothing said goodbye. Mended by power on and a finished boot."""
    outer.docker("kill", node.name)
    return Fault(lambda: _power_on(node))


def shutdown(node: Node) -> Fault:
    """An orderly shutdown, finished when this returns. Mended by power on and a finished boot."""
    outer.docker("stop", "--time", f"{REBOOT_DEADLINE_S:.0f}", node.name, timeout_s=REBOOT_DEADLINE_S + 30)
    return Fault(lambda: _power_on(node))


def reboot(node: Node, wait: bool = True) -> None:
    """An orderly reboot: systemd ends everything, then the node boots. Without `wait`, returns during the boot."""
    outer.docker("restart", "--time", f"{REBOOT_DEADLINE_S:.0f}", node.name, timeout_s=REBOOT_DEADLINE_S + 30)
    if wait:
        node.wait_booted()


def docker_mute(node: Node) -> Fault:
    """SIGSTOP to the node's dockerd: its socket accepts, and nobody answers. Containers run on."""
    return freeze(node, int(node.text(["systemctl", "show", "-P", "MainPID", "docker.service"])))


def docker_stopped(node: Node) -> Fault:
    """docker.service and docker.socket stopped (else a connection wakes it). Its containers die with it."""
    units = ["docker.socket", "docker.service"]
    node.run(["systemctl", "stop", *units], timeout_s=120)
    return Fault(lambda: _if_running(node, ["systemctl", "start", *units]))


def _swallow(node: Node, link: str) -> Fault:
    rules = (["INPUT", "-i", link, "-j", "DROP"], ["OUTPUT", "-o", link, "-j", "DROP"])
    for chain, *rule in rules:
        node.run(["iptables", "-w", "-I", chain, *rule])

    def undo() -> None:
        for rule in rules:
            _if_running(node, ["iptables", "-w", "-D", *rule])

    return Fault(undo)


def _if_running(node: Node, argv: list[str]) -> None:
    """Mends with `argv`; a node that is off, or was rebooted and so has nothing to mend, is left alone."""
    if node.running():
        node.run(argv, check=False)


def _power_on(node: Node) -> None:
    if not node.running():
        node.start()
    node.wait_booted()
