"""What the daemon does to the nodes: one value for each action, told by identities and never by names alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One container of ours, by identity: node, id and the generation on its label."""

    node: str
    container: str
    rank: int
    generation: int
    runtime: str = "docker"


@dataclass(frozen=True, slots=True)
class ProcessTarget:
    """One process by identity: node, boot identity, pid and start ticks; never a name or pattern alone."""

    node: str
    boot_id: str
    pid1_ticks: int
    pid: int
    start_ticks: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class CaptureEvidence:
    """Save logs and inspect of all ranks of this generation, bounded in time, before they are torn down."""

    generation: int
    targets: tuple[Target, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class StopRanks:
    """SIGTERM, `grace_s`, SIGKILL, and wait until Docker says that they run no more. All targets at once."""

    targets: tuple[Target, ...]
    grace_s: float


@dataclass(frozen=True, slots=True)
class RemoveRanks:
    """Remove containers that no longer run."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class KillProcesses:
    targets: tuple[ProcessTarget, ...]


@dataclass(frozen=True, slots=True)
class CleanNodes:
    """Right before a start, on every node at once: unlink our unreferenced shm segments, empty the deployment's cache
    folders where a person asked for that, take back what is swapped out, then sync and drop caches."""

    nodes: tuple[str, ...]
    generation: int
    drop_caches: bool
    swapoff: bool = False
    clean: int = 0
    """The wish for empty caches that this is the answer to, 0 for none."""


@dataclass(frozen=True, slots=True)
class StartRanks:
    """Create and start these ranks at once, as this generation."""

    ranks: tuple[int, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class WarmUp:
    """One real streamed completion; serving begins when it is correct."""

    generation: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class SendCanary:
    """One token, streamed."""

    generation: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AskSanity:
    """The fixed question, streamed: is what the engine answers sense?"""

    generation: int
    timeout_s: float


Action = (
    CaptureEvidence
    | StopRanks
    | RemoveRanks
    | KillProcesses
    | CleanNodes
    | StartRanks
    | WarmUp
    | SendCanary
    | AskSanity
)

INTERRUPTIBLE = (WarmUp, SendCanary, AskSanity)
"""Actions that change nothing on any node: a decision to do something else cancels them."""
