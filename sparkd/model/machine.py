"""What one node's machine showed in a look: its boot, memory, processes, sockets, segments and echoes."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Boot:
    """A node's boot identity: boot id and start ticks of PID 1 (containers share the host's boot id), and how long it is up."""

    boot_id: str
    pid1_ticks: int
    uptime_s: float
    hostname: str = ""
    clk_tck: int = 100
    now: float = 0.0
    """The node's own wall clock, for the skew."""

    @property
    def identity(self) -> str:
        return f"{self.boot_id}:{self.pid1_ticks}"

    @property
    def up_s(self) -> float:
        """Since its PID 1 started: a node that is a container has the uptime of the machine below it."""
        return max(0.0, self.uptime_s - self.pid1_ticks / self.clk_tck)


@dataclass(frozen=True, slots=True)
class Memory:
    """One pool on GB10. All in bytes; `page_cache` is what dropping caches could give back."""

    total: int
    free: int
    available: int
    page_cache: int
    shm: int
    swap_used: int


@dataclass(frozen=True, slots=True)
class DockerUnit:
    """Is a dockerd running? Read without dialling it: a connection would wake a Docker that a person stopped."""

    running: bool
    pid: int = 0
    start_ticks: int = 0


def is_container(owner: str) -> bool:
    """Is this owner of a control group a container's id? Units have a dot in their names."""
    return len(owner) == 64 and "." not in owner


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    ppid: int
    start_ticks: int
    state: str
    """R S D T Z …: T is stopped, D waits in the kernel."""
    rss_bytes: int
    owner: str
    """Container id or unit name its control group belongs to, or `-`."""
    title: str


@dataclass(frozen=True, slots=True)
class Work:
    """What the processes of one container or unit have done so far: it is that these figures move that tells something."""

    owner: str
    cpu_ms: int
    io_bytes: int


SESSIONS = re.compile(
    r"(user@\d+|sshd?|sshd?@[^/]*|cron|crond|atd|[a-z-]*getty@[^/]*|console-getty|gdm|xrdp[a-z-]*)\.service"
)
"""Services in whose control group people, and jobs of theirs, start what they like; to end one would lock people out."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A process that looks like an engine's, in whatever control group. Its title is no proof of anything."""

    pid: int
    ppid: int
    start_ticks: int
    state: str
    rss_bytes: int
    owner: str
    """Container id or unit of its control group, or `-`."""
    age_s: float
    ports: tuple[int, ...]
    """What it listens on."""
    mark: tuple[str, str, int] | None
    """(owner id, deployment, generation) that it, or a parent in the same control group, was started with."""
    title: str

    @property
    def container(self) -> str | None:
        """Id of the container it runs in, None outside of any."""
        return self.owner if is_container(self.owner) else None

    @property
    def unit(self) -> str | None:
        """The service whose process it is, which may restart it; sessions of people are none, and what starts them."""
        return self.owner if self.owner.endswith(".service") and not SESSIONS.fullmatch(self.owner) else None


@dataclass(frozen=True, slots=True)
class Tmpfs:
    path: str
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Holders:
    """Who has a node's memory. Of `processes` (biggest first) `rss_bytes` is what is theirs alone."""

    tmpfs: tuple[Tmpfs, ...]
    processes: tuple[Process, ...]
    unaccounted: int
    """Neither free, cached, shared nor a process's: the kernel's, and on GB10 what the GPU's driver has handed out."""
    unaccounted_at_boot: int | None = None
    """The same right after this boot, None where they were not read in time."""


@dataclass(frozen=True, slots=True)
class Socket:
    state: str
    local_ip: str
    local_port: int
    remote_ip: str
    remote_port: int
    tx_queue: int
    retransmits: int
    inode: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class ShmSegment:
    name: str
    size_bytes: int
    mtime: float
    dev: int
    inode: int
    holders: int


@dataclass(frozen=True, slots=True)
class Ping:
    """One echo over the fabric: `ms` is None when it was lost, `error` says why it could not even be sent."""

    address: str
    ms: float | None
    error: str | None = None

    @property
    def silent(self) -> bool:
        """Lost, or no way there. An echo that was forbidden or had no address family says nothing about the fabric."""
        words = ("unreachable", "no route", "is down")
        no_way = self.error is None or any(word in self.error.lower() for word in words)
        return self.ms is None and no_way
