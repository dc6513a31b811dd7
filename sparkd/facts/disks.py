"""`disks` probe -> the file systems below the paths that a deployment needs. No text: none was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.engines import ENGINES
from sparkd.facts import Args, Fact, Question, records
from sparkd.model.config import Deployment
from sparkd.model.printed import WHOLE

LOGS = "/var/log"
CACHES_IN = ("HF_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that move caches out of the home of the ranks' user, besides the engine's own."""
_LINE = re.compile(rf"({WHOLE}) ({WHOLE}) ({WHOLE}) ({WHOLE}) (ro|rw) (\S+) ((?:~[^/ ]+)?/.*)")


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
    deployment = question.deployment
    read = {mount.source for mount in deployment.container.mounts}
    if deployment.runtime == "process" and deployment.model.startswith("/"):
        read.add(deployment.model)
    return {"paths": sorted(read | written(deployment))}


def written(deployment: Deployment) -> set[str]:
    """Paths that a start writes to, beside those of Docker itself; `~NAME/` is the home of a user."""
    found = {LOGS, *(mount.source for mount in deployment.container.mounts if not mount.read_only)}
    if deployment.runtime == "process":
        moved = (deployment.env.get(name, "") for name in (*CACHES_IN, *ENGINES[deployment.engine].variables.caches))
        found |= {path for path in moved if path.startswith("/")}
        found |= {f"~{deployment.user}/"} if deployment.user else set()
    return found


DISKS = Fact("disks", parse, _args)
