"""`disks` probe -> the file systems below the paths that a deployment needs. No text: none was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import Args, Fact, Question, records

LOGS = "/var/log"
_LINE = re.compile(r"(\d+) (\d+) (\d+) (\d+) (ro|rw) (\S+) (/.*)")


@dataclass(frozen=True, slots=True)
class Disk:
    """One path's file system. Sizes in bytes; `inodes` is 0 where the type has no such limit (btrfs, ZFS)."""

    total: int
    free: int
    inodes: int
    inodes_free: int
    read_only: bool
    kind: str


def parse(text: str) -> dict[str, Disk]:
    return {
        match[7]: Disk(int(match[1]), int(match[2]), int(match[3]), int(match[4]), match[5] == "ro", match[6])
        for match in records(text, _LINE)
    }


def _args(question: Question) -> Args:
    return {"paths": sorted({*(mount.source for mount in question.deployment.container.mounts), LOGS})}


DISKS = Fact("disks", parse, _args)
