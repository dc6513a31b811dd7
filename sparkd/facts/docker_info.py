"""What Docker says of itself -> its version and the folders that it writes to; nothing where no Docker is needed or there."""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.facts import Fact, FactError
from sparkd.model.printed import document

CONTAINERD_ROOT = "/var/lib/containerd"
"""Where images lie with containerd's store (the default since Docker 29), wherever `data-root` is."""
CONTAINERD_STORE = "io.containerd.snapshotter.v1"


@dataclass(frozen=True, slots=True)
class DockerInfo:
    """`folders`: that of containers and their logs first, that of images where it is another."""

    folders: tuple[str, ...] = ()
    version: str = ""


def parse(text: str) -> DockerInfo:
    try:
        told = document(text)
        if told == []:  # as every question to a Docker that nobody needs is answered
            return DockerInfo()
        root, status = str(told["DockerRootDir"]), dict(told["DriverStatus"] or ())
        if not root.startswith("/"):
            raise FactError(f"{root[:80]!r} is no folder")
        folders = (root, CONTAINERD_ROOT) if status.get("driver-type") == CONTAINERD_STORE else (root,)
        return DockerInfo(folders, str(told["ServerVersion"]))
    except (LookupError, TypeError, ValueError) as error:
        raise FactError(f"not what Docker says of itself: {error!r}") from None


DOCKER_INFO: Fact[DockerInfo] = Fact("docker_info", parse, via="docker")
