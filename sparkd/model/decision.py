"""What was decided: the state of one deployment, what a person wants of it, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from sparkd.model.action import Action
from sparkd.model.config import Deployment
from sparkd.model.launch import Launch
from sparkd.model.memory_trail import MemoryEpisode
from sparkd.model.outage import Outage
from sparkd.model.sanity import ROW, Sanity
from sparkd.model.start_times import StageTimes


class Phase(StrEnum):
    STOPPED = "stopped"
    ADOPTING = "adopting"
    PRECHECK = "precheck"
    CLEANUP = "cleanup"
    START_WORKERS = "start_workers"
    START_HEAD = "start_head"
    WARMUP = "warmup"
    SERVE = "serve"
    BACKOFF = "backoff"
    HELD = "held"
    PAUSED = "paused"


STARTING = frozenset({Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP})
"""Ranks of a numbered generation are being brought up."""

ASK_SOURCES = frozenset({Phase.PRECHECK, Phase.CLEANUP, Phase.BACKOFF, Phase.HELD, Phase.ADOPTING})
"""A start may be near: unless images and mount sources are looked up on every node, the decision waits for ever."""

ASK_LEFTOVERS = frozenset({Phase.STOPPED, Phase.PRECHECK, Phase.CLEANUP, Phase.BACKOFF, Phase.HELD, Phase.ADOPTING})
"""Nothing may run: processes that outlived their containers must be looked for, or *gone* is never verified."""

ASK_ENGINE = STARTING | {Phase.SERVE, Phase.PAUSED, Phase.ADOPTING}
"""Ranks may be running: the engine is asked over HTTP."""


class FailureClass(StrEnum):
    """DESIGN section 7."""

    PERMANENT = "permanent"
    RESOURCE = "resource"
    TRANSIENT = "transient"
    UNCLASSIFIED = "unclassified"
    UNREADABLE = "unreadable"
    HARDWARE = "hardware"
    OPERATOR = "operator"


class Cause(StrEnum):
    """Why a group start happened (label of sparkd_group_starts_total)."""

    BOOT = "boot"
    OPERATOR = "operator"
    CRASH = "crash"
    WEDGE = "wedge"
    CONFIG = "config"
    ADOPT = "adopt"


@dataclass(frozen=True, slots=True)
class Intent:
    """What people want. Counters name operations: a decision handles each number once and remembers it in the state."""

    wanted: str = "stopped"
    """up | stopped"""
    paused: bool = False
    restart: int = 0
    release: int = 0
    lost: frozenset[str] = frozenset()
    """Nodes that a person declared lost; cleared when the node is seen again."""
    profile: str | None = None
    by: str = ""
    message: str = ""
    at: float = 0.0
    """Unix time of the last change."""
    clean: int = 0
    """The number of the last restart that was asked to begin with empty caches."""
    forced: bool = False
    """A person wants it up although it differs from what worked; so do the restarts after this start."""
    unread: bool = False
    """What people wanted was lost, both copies of it: nothing is started or stopped until a person says it anew."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why nothing is started. `fact` is what is re-read (`image:spark2:REF`, `port:spark1:8000`, `exit:127`)."""

    cls: FailureClass
    fact: str
    text: str
    fix: str
    heals_itself: bool


@dataclass(frozen=True, slots=True)
class Failure:
    generation: int
    cls: FailureClass
    signature: str
    """Stable id: `rank-removed`, `widowed`, `engine-dead`, `rank-stuck`, `fabric-silent`, `stalled`, `busy`, `exit-127` …"""
    text: str
    at: float
    wall: float
    rank: int | None = None
    exit_code: int | None = None
    outage_s: float | None = None
    """How long the outage lasted that this belongs to, from its record; None while that goes on."""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """Clocks of health of one generation, on the daemon's clock; None = that evidence is not there now."""

    tokens: float | None = None
    """Sum of the engine's progress counters at the last look that could read them."""
    tokens_at: float | None = None
    """When they last moved."""
    canary_at: float | None = None
    """When the last canary ended; None = none was sent yet, so one is due."""
    canary_failing_since: float | None = None
    canary_failures: int = 0
    """In a row: an answer or a token ends them."""
    erring: bool = False
    """The last canary was answered with an error: tokens that it moved itself are no progress."""
    unsent: str = ""
    """Why the last canary says nothing of the engine, in one clause: it could not be sent, or was sent with a wrong key."""
    blind: bool = False
    """The last look was part of a gap: a node was unread, or it came late."""
    gap_until: float | None = None
    """When the last such gap ended. None without a gap, and again once an answer or a token shows that nothing was missed."""
    late_until: float | None = None
    """The same for gaps in which sparkd itself stood still: a canary that was under way then does not count as failed."""
    failed_first: float | None = None
    failed_last: float | None = None
    """When the first and the last canary were sent that failed and were sent after the gap."""
    dead_since: float | None = None
    exception_since: float | None = None
    """Kept until a token moves or a canary answers: the line scrolls out of the log, the exception stays true."""
    stuck_since: float | None = None
    stuck: tuple[str, ...] = ()
    """The processes that were in state T or D at every look since `stuck_since`: D for a moment is normal."""
    silent_since: float | None = None
    widow_since: float | None = None
    """A worker without its head was seen while the head was said to run."""
    frozen_since: float | None = None
    """Requests run or wait and no token moves. Normal in a long prefill, so it only makes sparkd read the logs."""
    busy: str = ""
    """What the nodes were seen to do while something is suspicious: `working`, `spinning`, `idle` or `unknown`; empty before."""
    busy_said: str = ""
    """The same in figures, as one clause."""
    busy_nodes: tuple[tuple[str, str, str], ...] = ()
    """Both of each node: (node, `working` …, its figures), as it was last asked."""
    worked_at: float | None = None
    """When a node was last seen to work, at two looks in a row, while something is suspicious."""
    busy_told: bool = False
    """History has it that a restart was put off because a node works."""

    @property
    def not_answering(self) -> bool:
        """Two real requests in a row have failed. That is shown at once, whatever may be done about it."""
        return self.canary_failures >= 2

    @property
    def alarmed(self) -> bool:
        """Something is wrong enough to ask for an answer soon."""
        clocks = (self.dead_since, self.exception_since, self.stuck_since, self.silent_since, self.canary_failing_since)
        return any(clock is not None for clock in clocks)

    @property
    def suspicious(self) -> bool:
        """Worth reading the logs of all ranks."""
        return self.alarmed or self.frozen_since is not None


@dataclass(frozen=True, slots=True)
class State:
    """All that is remembered of one deployment; persisted before anything is done. Times are on the daemon's clock."""

    phase: Phase = Phase.ADOPTING
    since: float = 0.0
    since_wall: float = 0.0
    generation: int = 0
    highest: int = 0
    """The highest generation ever seen on a label: the next one is above it, even when the journal had been lost."""
    cause: Cause | None = None
    """Why the start under way, or the last one, happened."""
    sentence: str = ""
    reason: str = ""
    hold: Hold | None = None
    failure: Failure | None = None
    """The last failure, or reboot of a node of the group."""
    failures: int = 0
    """Failures in a row, for the pause that doubles."""
    spared: bool = False
    """The first of them came after long serving and cost no pause."""
    starts: tuple[float, ...] = ()
    """When automatic group starts happened, for the budget."""
    retry_at: float | None = None
    """When the next start is tried; while held, when the fact of the hold is looked at again."""
    resource_tries: int = 0
    """Measurements already made for a resource failure (DESIGN 7: 30, 60, 120 s)."""
    memory_before: tuple[tuple[str, int], ...] = ()
    """Node -> bytes that it had available right before the last start: what has to come back once that has ended."""
    memory: tuple[MemoryEpisode, ...] = ()
    """Where memory runs out or drains, as it was told."""
    started_at: float | None = None
    serving_since: float | None = None
    serving_since_wall: float | None = None
    outage: Outage | None = None
    """The outage that goes on; `decide/outages.py` alone begins and ends one."""
    last_outage: Outage | None = None
    """The one that ended last."""
    looked_at: float | None = None
    """When the last decision was made: a longer pause than the loop ever makes is a gap in what is known."""
    boots: tuple[tuple[str, str], ...] = ()
    """Node -> boot identity when this generation was started."""
    ranks_started: tuple[int, ...] = ()
    captured: int = 0
    """Generation whose evidence was saved."""
    cleaned: int = 0
    """Generation for which the nodes were cleaned (the one about to start)."""
    clean_done: int = 0
    """The last wish for empty caches that was done."""
    before: Phase | None = None
    """Phase before sparkd went away, or before a pause: what adopting goes back to."""
    restart_done: int = 0
    release_done: int = 0
    stage: str | None = None
    stages: tuple[tuple[str, float], ...] = ()
    watch: Watch = Watch()
    waiting_w: tuple[tuple[str, float], ...] = ()
    """Node -> watts that its GPUs draw while its ranks are loaded and only wait, learned while nobody asks."""
    digest: str = ""
    """Digest of the deployment file that the running generation was started with."""
    started: Deployment | None = None
    """The deployment as the last generation was started: by this it is watched and stopped, whatever became of its file.
    None once it was stopped and nothing of it is left."""
    images: tuple[tuple[str, str], ...] = ()
    """Node -> id of the image that the last generation was started from: a tag may be moved to another one."""
    warm_digest: str = ""
    """Digest of the last deployment file that served: its caches are warm. Empty once they were emptied."""
    launch: Launch = field(default_factory=Launch)
    """What is remembered of the last start; of use while it goes on."""
    learned: tuple[StageTimes, ...] = ()
    """What the stages of earlier starts took."""
    sanity: Sanity = field(default_factory=Sanity)

    @property
    def nonsense(self) -> bool:
        """This generation answered the fixed question with nonsense, twice in a row, and has not made sense since."""
        return self.sanity.generation == self.generation and self.sanity.bad >= ROW


@dataclass(frozen=True, slots=True)
class Planned:
    """What happens next by itself, and when (daemon's clock)."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one step: the state to keep, actions in order, one English sentence, one stable reason code."""

    state: State
    actions: tuple[Action, ...]
    sentence: str
    reason: str
    next: Planned | None = None
    events: tuple[tuple[str, str], ...] = ()
    """(kind, sentence) for history: `started`, `serving`, `failed`, `held`, `healed`, `stopped`, `adopted` …"""
    lost_at: float | None = None
    """The latest moment at which it can have stopped answering, where this decision finds that out only now."""
