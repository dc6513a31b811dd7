"""The clocks and limits of supervision as frozen values, and the units of all configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

# The second part is the unit, for docs/configuration.md and the schema; to a type checker it is nothing.
Seconds = Annotated[float, "seconds"]
Size = Annotated[str, "bytes with a unit, as 512MiB or 64g"]
Tokens = Annotated[int, "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Automatic group starts allowed; what a person asks for costs nothing of it."""

    starts: int = 5
    """Automatic starts allowed within `per`; the next one waits until the window has room for it."""
    per: Seconds = 3600.0
    """The window of `starts`."""
    per_day: int = 12
    """Automatic starts allowed within 24 hours; one more, and the deployment is held for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pause before an automatic restart: none after long serving, else from `first` to `max`, doubling with every failure in a row."""

    first: Seconds = 15.0
    """The pause after the first failure in a row that did not follow long serving."""
    max: Seconds = 900.0
    """The longest pause."""
    jitter: float = 0.25
    """Every pause is longer or shorter by up to this share of itself."""
    reset_after: Seconds = 1800.0
    """Serving for this long makes the next failure the first one again, and one without a pause."""
    reset_after_asked: Seconds = 600.0
    """The same for a generation that a person asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Every clock of supervision. Defaults: what the field reports and measured engines need."""

    period: Seconds = 5.0
    """From one look at nodes and engines to the next."""
    budget: Budget = field(default_factory=Budget)
    """How often sparkd starts a group by itself."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long it pauses before."""
    drift: str = "warn"
    """A start that differs from what last worked: `off`, nothing is said; `warn`, it is said; `refuse`, what is known to
    break it holds the start, unless a person forces it."""
    known_good_after: Seconds = 600.0
    """A generation that has answered for this long is recorded as known-good."""
    measure_every: Seconds = 600.0
    """An idle engine is sent one short request this often, to see whether it has become slower."""
    dead_after: Seconds = 30.0
    """An engine that says it is dead, or a rank that logged an exception, together with a failed canary."""
    stuck_after: Seconds = 60.0
    """A rank's process in state T or D, together with a failed canary."""
    silent_after: Seconds = 60.0
    """A peer silent on the fabric while SSH works, together with a failed canary."""
    suspect_after: Seconds = 180.0
    """Canaries fail and no token moves for this long: suspected, and said."""
    stalled_after: Seconds = 600.0
    """Canaries fail, no token moves and no node is seen to work for this long: acted on."""
    busy_after: Seconds = 1800.0
    """Canaries fail and no token moves for this long: acted on, although fabric, GPUs or compilers of a node are seen to work."""
    not_yet: Seconds = 600.0
    """For this long after a node's boot a missing mount, link, Docker or GPU is `not yet`, never a failure."""
    gone_after: Seconds = 300.0
    """A node that is silent to SSH for this long while it answers pings is held for a person; one that is silent to all has
    its power taken where `power: {auto: true}` allows it."""
    notice_after: Seconds = 60.0
    """A node unread for this long is worth a notice."""
    hold_recheck: Seconds = 30.0
    """The fact behind a hold is read again this often; the hold ends when it passes."""
    resource_retries: tuple[Seconds, ...] = (30.0, 60.0, 120.0)
    """Pauses before the tries after a resource (memory, a port) was missing; then held."""
    canary_timeout: Seconds = 60.0
    """One canary may take this long before it counts as failed (vLLM answers one token in well under a second, queues included)."""
    sanity_every: Seconds = 3600.0
    """An idle engine is asked one fixed question this often, and after its warm-up, to see whether its answers make sense."""
    on_nonsense: str = "tell"
    """What follows when they do not, twice in a row: `tell`, it counts as not serving and a person is told; `restart-once`, the
    group is started anew first, once until an answer makes sense again."""
    node_deadline: Seconds = 4.0
    """One look at one node may take this long; a mute node costs the loop no more than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start-up budgets: first boots of 40 minutes are normal."""

    timeout: Seconds = 2700.0
    """From the first rank to the first answer, with cold caches."""
    warm_timeout: Seconds = 1800.0
    """The same once this deployment has served on these nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """How a group ends that has not failed. After a failure there is nothing to end well: 3 s, then SIGKILL."""

    grace: Seconds = 30.0
    """From SIGTERM to SIGKILL; a head has the time besides that its engine drains (vLLM: `shutdown-timeout`)."""
    drain: Seconds = 60.0
    """Before planned work on a node (`sparkd ctl maintenance`), requests in flight have this long to be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How an engine that says nothing is asked whether it lives."""

    canary_after: Seconds = 120.0
    """Without a moving token for this long, one canary request of one token is sent."""
    sanity: bool = True
    """Whether its answers are judged; `false` for base models that follow no instruction, and for embeddings."""
