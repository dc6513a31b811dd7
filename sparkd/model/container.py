"""The container of a rank as a frozen value: what a deployment file says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkd.model.policy import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount; `source` is a path on the node, which must exist (a missing source must fail, never become an empty folder)."""

    source: str
    """Path on the node."""
    target: str
    """Path inside the container."""
    read_only: bool = False
    """Mounted so that the engine cannot write to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimit:
    """Docker's own log of a rank."""

    max_size: Size = "50m"
    """A log file is closed at this size, and the next one begun."""
    max_file: int = 3
    """So many files are kept of each rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What Docker is asked for. sparkd adds its labels, an init process and the restart policy `no`. Runtime process takes
    only `workdir`, `memory` and `ulimits` of it."""

    privileged: bool = True
    """All devices and capabilities: what RDMA needs where they are not given one by one."""
    network: str = "host"
    """The node's own network, the only one where ranks find each other."""
    ipc: str = "host"
    """`host` shares the node's shared memory, `private` gives the container its own."""
    gpus: str | None = "all"
    """`all`, or null for none."""
    shm_size: Size | None = None
    """Size of /dev/shm with `ipc: private`."""
    devices: tuple[str, ...] = ()
    """Device files for a container that is not privileged, such as /dev/infiniband."""
    cap_add: tuple[str, ...] = ()
    """Capabilities for a container that is not privileged, such as IPC_LOCK."""
    ulimits: Mapping[str, int] = field(default_factory=dict)
    """Limit by name, soft and hard, such as `memlock: -1`; -1 is none."""
    user: str | None = None
    """User inside the container; without it, the image's."""
    workdir: str | None = None
    """Working folder inside the container; without it, the image's."""
    entrypoint: tuple[str, ...] | None = None
    """Program and first arguments in place of the image's entry point."""
    mounts: tuple[Mount, ...] = ()
    """Folders and files of the node inside the container."""
    log: LogLimit = field(default_factory=LogLimit)
    """How much Docker keeps of what the rank says."""
    memory: Size | None = None
    """Limit of the container's memory; without it, none."""
