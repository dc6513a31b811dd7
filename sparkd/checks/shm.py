"""Shared memory: room for the ranks' segments, what killed engines left there, and who would take it away."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.container_spec import RANK_SHM_BYTES, own_shm_bytes
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.ipc import IPC, Ipc
from sparkd.facts.shm import SHM
from sparkd.model.check import Level
from sparkd.model.decision import FailureClass
from sparkd.model.size import spoken

FIRST_USER = 1000
"""logind spares the users of services, whose ids are below (logind.conf(5), SYS_UID_MAX)."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    yield from _own_size(scene)
    for node, segments in scene.each(SHM):
        left = [one for one in segments if one.holders == 0]
        if left:
            many, verb = ("1 segment", "is") if len(left) == 1 else (f"{len(left)} segments", "are")
            text = f"{many} in /dev/shm on {node} ({spoken(sum(one.size_bytes for one in left))}) {verb} held by nobody"
            seen = tuple(f"{one.name} {one.size_bytes}" for one in left[:8])
            yield Trouble(node, text, "sparkd unlinks them before the next start", seen, mild=True)
    for node, ipc in scene.each(IPC):
        yield from _room(scene, node, ipc)
        yield from _taken_away(node, ipc)


def _own_size(scene: Scene) -> Iterator[Trouble]:
    container = scene.deployment.container
    if scene.deployment.runtime != "docker" or container.ipc != "private":
        return
    size = own_shm_bytes(container)
    if size < RANK_SHM_BYTES:
        text = f"with `ipc: private` a rank has {spoken(size)} of shared memory, and needs {spoken(RANK_SHM_BYTES)}"
        yield Trouble(None, text, "write `container: {ipc: host}`, or `shm_size: 1g`")


def _room(scene: Scene, node: str, ipc: Ipc) -> Iterator[Trouble]:
    free = ipc.size_bytes - ipc.used_bytes
    shares = scene.deployment.runtime == "process" or scene.deployment.container.ipc == "host"
    if shares and not scene.running and free < RANK_SHM_BYTES:
        text = f"/dev/shm on {node} has {spoken(free)} of {spoken(ipc.size_bytes)} free; a rank needs {spoken(RANK_SHM_BYTES)}"
        yield Trouble(node, text, f"on {node}: ls -laS /dev/shm; mount -o remount,size=50% /dev/shm")


def _taken_away(node: str, ipc: Ipc) -> Iterator[Trouble]:
    for name, user in ipc.users.items():
        if ipc.removes_ipc and user.uid is not None and user.uid >= FIRST_USER and not user.lingers:
            text = f"when user {name} logs out of {node}, logind removes the shared memory of the ranks (RemoveIPC)"
            yield Trouble(node, text, f"on {node}: loginctl enable-linger {name}")


CHECK = Check(
    code="shm",
    order=190,
    level=Level.WARN,
    description="/dev/shm has room for the ranks, nothing is left there, and no logout of a user takes it away from them.",
    evaluate=evaluate,
    needs=(SHM, IPC),
    cls=FailureClass.RESOURCE,
)
