"""Disks: space, inodes, types and read-only mounts where the model, Docker, caches and logs are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkd.checks.shared.scene import Ask, Check, Scene, Space, Trouble
from sparkd.checks.shared.starters import containers
from sparkd.facts import disks
from sparkd.facts.containers import CONTAINERS
from sparkd.facts.disks import DISKS, Disk
from sparkd.facts.docker_info import DOCKER_INFO, DockerInfo
from sparkd.model.check import Level
from sparkd.model.decision import FailureClass
from sparkd.model.size import spoken

FULL_BYTES, LOW_BYTES = 256 << 20, 5 << 30
"""A start writes compile caches and logs: some hundred MiB (field report 1). Below `FULL_BYTES` it cannot work."""
FEW_INODES = 1000
SHOWN = 3
NETWORK = "a server that goes mute blocks every process that reads from it"
MEMORY = "what lies there takes memory from the ranks"
NO_LINKS = "it keeps neither links nor rights, which caches of models and compilers need"
WRONG: Mapping[str, str] = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"), NETWORK),
    **dict.fromkeys(("tmpfs", "ramfs"), MEMORY),
    **dict.fromkeys(("vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk"), NO_LINKS),
}
"""Types of file systems that are no place for models and caches, and why not."""


def asks(scene: Scene) -> Iterator[Ask]:
    """Docker's data root may be anywhere, and is elsewhere on nodes with a disk for models."""
    if scene.deployment.runtime == "docker":
        yield from (Space(node, path) for node, info in scene.each(DOCKER_INFO) for path in info.folders)


def evaluate(scene: Scene) -> Iterator[Trouble]:
    written = disks.written(scene.deployment)
    for node, found in scene.each(DISKS):
        for path, disk in found.items():
            yield from _of(node, path, disk, path in written)
        yield from _logs(scene, node)
    for ask in asks(scene):
        answer = scene.answer(ask)
        for path, disk in disks.parse(answer).items() if isinstance(answer, str) else ():
            yield from _of(ask.node, path, disk, written=True)


def _of(node: str, path: str, disk: Disk, written: bool) -> Iterator[Trouble]:
    seen = (f"{path}: {spoken(disk.free)} of {spoken(disk.total)} free, {disk.kind}",)
    if written and disk.read_only:
        text = f"{path} on {node} is mounted read-only"
        fix = f"on {node}: dmesg | grep -i 'remount' tells why; mount -o remount,rw once the disk is well"
        yield Trouble(node, text, fix, seen)
    elif written and disk.free < LOW_BYTES:
        full = disk.free < FULL_BYTES
        text = f"{path} on {node} has {spoken(disk.free)} free"
        yield Trouble(node, text, f"on {node}: docker system df; du -xh --max-depth=2 {path}", seen, mild=not full)
    elif written and disk.inodes and disk.inodes_free < FEW_INODES:
        text = f"{path} on {node} has {disk.inodes_free} inodes left: no new file can be made although there is space"
        yield Trouble(node, text, f"on {node}: du --inodes -x --max-depth=2 {path}", seen)
    if disk.kind in WRONG:
        text = f"{path} on {node} is on {disk.kind}: {WRONG[disk.kind]}"
        yield Trouble(node, text, f"keep models and caches on a disk of {node}, such as ext4", seen, mild=True)


def _logs(scene: Scene, node: str) -> Iterator[Trouble]:
    """Logs of containers that other programs made: those of our ranks are made with a limit."""
    there = containers(scene, node).values()
    found = [one for one in there if one.log_grows and (one.state == "running" or one.starts_itself)]
    if found:
        names = ", ".join(one.name for one in found[:SHOWN]) + (
            f" and {len(found) - SHOWN} more" * (len(found) > SHOWN)
        )
        info = scene.fact(node, DOCKER_INFO)
        full = info.folders[0] if isinstance(info, DockerInfo) and info.folders else "Docker's disk"
        text = f"what {names} on {node} says is kept in a file without a limit, until {full} is full"
        fix = (
            f'on {node}: {{"log-opts": {{"max-size": "50m"}}}} in /etc/docker/daemon.json, and make the container anew'
        )
        yield Trouble(node, text, fix, mild=True)


CHECK = Check(
    code="disk",
    order=120,
    level=Level.FAIL,
    description="The disks of models, caches, Docker and logs have space and inodes left, are of a fitting type, can be "
    "written where they must, and no container's log fills them.",
    evaluate=evaluate,
    needs=(DISKS, CONTAINERS, DOCKER_INFO),
    asks=asks,
    cls=FailureClass.RESOURCE,
)
