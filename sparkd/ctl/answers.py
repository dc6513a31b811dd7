"""What the daemon answers, as typed values (`sparkd.ctl.reading` makes them of its JSON).

Named tuples, not dataclasses: building a dozen frozen slotted dataclasses costs 15 ms, a fifth of what `ctl status`
may take. Annotations must stay real types here, so there is no `from __future__ import annotations`.
"""

from typing import NamedTuple

from sparkd.ctl.node_answers import Memory as Memory
from sparkd.ctl.node_answers import MemoryAlert as MemoryAlert
from sparkd.ctl.node_answers import Moment as Moment
from sparkd.ctl.node_answers import Node as Node
from sparkd.ctl.node_answers import PowerUse as PowerUse
from sparkd.ctl.node_answers import Work as Work


class Rank(NamedTuple):
    rank: int
    node: str
    state: str | None = None
    generation: int | None = None
    container: str | None = None
    evidence_age_s: float | None = None
    exit_code: int | None = None


class Hold(NamedTuple):
    text: str
    fact: str = ""
    fix: str = ""
    heals_itself: bool = False
    awaits: str | None = None


class Planned(NamedTuple):
    at: Moment
    what: str


class Stage(NamedTuple):
    name: str
    started_at: Moment | None = None
    seconds: float | None = None


class Suspect(NamedTuple):
    """The stage under way takes too long; `longest_s` is the most that it took before, None where it never ended."""

    stage: str
    seconds: float
    longest_s: float | None = None
    limit_s: float = 0.0


class Start(NamedTuple):
    """The start under way; `eta_s` counts from the answer, None where there is no earlier start to learn from."""

    stage: str | None = None
    stage_since: Moment | None = None
    eta_s: float | None = None
    stages: tuple[Stage, ...] = ()
    suspect: Suspect | None = None


class Failure(NamedTuple):
    generation: int
    text: str
    signature: str = ""
    class_: str = ""
    at: Moment | None = None
    outage_s: float | None = None


class OutageCause(NamedTuple):
    code: str
    text: str = ""
    class_: str | None = None


class Outage(NamedTuple):
    """`answered` is the generation that ended it; None while it goes on, or where a person stopped the deployment."""

    began: Moment
    seconds: float
    cause: OutageCause
    deployment: str = ""
    ended: Moment | None = None
    down_s: float = 0.0
    unread_s: float = 0.0
    generation: int | None = None
    answered: int | None = None
    starts: int = 0
    asked: bool = False
    unwatched: bool = False


class Month(NamedTuple):
    """What began in it: outages, and beside them what people asked for."""

    month: str
    outages: int = 0
    down_s: float = 0.0
    longest_s: float = 0.0
    unread_s: float = 0.0
    asked: int = 0
    asked_s: float = 0.0


class Outages(NamedTuple):
    outages: tuple[Outage, ...] = ()
    months: tuple[Month, ...] = ()


class Counts(NamedTuple):
    """Number of findings of each severity, for checks and for drift."""

    warn: int = 0
    fail: int = 0
    unknown: int = 0
    breaks: int = 0
    slows: int = 0


class Change(NamedTuple):
    """One key of a deployment: as it runs, and as its file has it by now."""

    key: str
    running: str | None = None
    file: str | None = None


class Pending(NamedTuple):
    """What the file of a running deployment says by now."""

    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    removed: bool = False


class Deployment(NamedTuple):
    name: str
    wanted: str
    phase: str
    serving: bool
    sentence: str = ""
    reason: str = ""
    since: Moment | None = None
    generation: int | None = None
    profile: str | None = None
    hold: Hold | None = None
    restart_pending: bool = False
    pending: Pending | None = None
    next: Planned | None = None
    start: Start | None = None
    last_failure: Failure | None = None
    outage: Outage | None = None
    drift: Counts | None = None
    checks: Counts | None = None
    ranks: tuple[Rank, ...] = ()
    serving_since: Moment | None = None
    down_since: Moment | None = None
    paused: bool = False
    file: str = ""

    @property
    def missed(self) -> bool:
        """Wanted up and not serving: exit code 4 of `status`."""
        return self.wanted == "up" and not self.serving


class Daemon(NamedTuple):
    version: str = "?"
    since: Moment | None = None
    loop_age_s: float | None = None
    read_only_disk: bool = False
    owner: str | None = None
    problems: tuple[str, ...] = ()


class Status(NamedTuple):
    cluster: str
    at: Moment
    daemon: Daemon
    deployments: tuple[Deployment, ...]
    nodes: tuple[Node, ...]

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def unread_nodes(self, deployment: Deployment) -> tuple[Node, ...]:
        names = {rank.node for rank in deployment.ranks}
        return tuple(node for node in self.nodes if node.unread and node.name in names)


class Event(NamedTuple):
    at: Moment
    kind: str
    sentence: str
    deployment: str | None = None
    generation: int | None = None
    by: str | None = None
    message: str | None = None


class Evidence(NamedTuple):
    text: str
    source: str | None = None
    line: object = None


class Cause(NamedTuple):
    text: str
    class_: str = ""
    signature: str = ""
    confidence: str = ""
    rank: int | None = None
    evidence: tuple[Evidence, ...] = ()
    fix: str | None = None


class Why(NamedTuple):
    """`rule` is what the last decision went by, `reason` its stable code."""

    cause: Cause | None = None
    also: tuple[Cause, ...] = ()
    sentence: str | None = None
    rule: str | None = None
    reason: str | None = None
    pending: Pending | None = None


class History(NamedTuple):
    events: tuple[Event, ...] = ()


class Line(NamedTuple):
    """One line of a rank's log."""

    text: str
    rank: int
    node: str
    at: Moment | None = None


class Row(NamedTuple):
    """What one check found on one node."""

    code: str
    status: str
    severity: str = ""
    node: str | None = None
    rank: int | None = None
    text: str = ""
    evidence: tuple[str, ...] = ()
    fix: str = ""


class Checks(NamedTuple):
    deployment: str = ""
    seconds: float = 0.0
    checks: tuple[Row, ...] = ()
    pending: Pending | None = None


class Known(NamedTuple):
    """One check, as `--list` shows it."""

    code: str
    severity: str
    description: str = ""
    needs: tuple[str, ...] = ()


class AllChecks(NamedTuple):
    checks: tuple[Known, ...] = ()
