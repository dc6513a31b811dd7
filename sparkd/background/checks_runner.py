"""Runs the checks of each deployment when they are due, beside the loop, and remembers what they found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from sparkd.background.parser_interview import Asking, beside
from sparkd.base import clock, files, secret_files
from sparkd.base.guarded import guarded
from sparkd.base.redact import Redactor
from sparkd.base.unread import bounded
from sparkd.checks import all_checks, drift_since_known_good
from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Scene
from sparkd.drift.report import Drift
from sparkd.facts.boots import BOOTS, Boots
from sparkd.model.check import Checked, Finding, Level, Status, about
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import ASK_ENGINE, STARTING, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.printed import Unread
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.model.start_times import total_s
from sparkd.observe.survey import Surveyor

ANEW = (Phase.PRECHECK, Phase.SERVE)
"""Phases that are entered with fresh results: what was found while the ranks came up may say what they had not done yet."""
EVERY_S = 300.0
"""While nothing is about to start. All checks together cost a node some tens of milliseconds (`make bench`)."""

BUG = Finding(
    code="checks",
    severity=Level.WARN,
    status=Status.UNKNOWN,
    text="the checks themselves failed: a bug in sparkd",
    fix="journalctl -u sparkd shows its trace; please report it",
)


def _bug(found: Unread) -> Finding:
    """Of one check, which costs the others nothing."""
    return replace(BUG, text=found.why)


async def _nothing_recorded(_: Scene) -> Drift | None:
    return None


@dataclass(slots=True)
class Checker:
    surveyor: Surveyor
    asking: Asking
    owner: str
    wake: Callable[[], None]
    """Called when a run has ended: a start may wait for it."""
    before_start: Callable[[Scene], Awaitable[Drift | Unknown | None]] = _nothing_recorded
    """What the next start differs in from what worked, by what the checks have read."""
    found: dict[str, Checked] = field(default_factory=dict)
    """Deployment -> the last run that ended; of what is there now is only what `current` gives."""
    boots: dict[str, tuple[str, Boots]] = field(default_factory=dict)
    """Node -> which boot it was in, and why it rebooted; the code that writes it into the history removes the entry."""
    _anew: set[str] = field(default_factory=set)
    """Deployments of whose engine more is known now than at their last run."""
    _running: dict[str, anyio.Event] = field(default_factory=dict)
    """Deployment -> set when the run under way has ended."""

    def __post_init__(self) -> None:
        self.asking.answered = self._answered

    def _answered(self, name: str) -> None:
        self._anew.add(name)
        self.wake()

    def due(self, name: str, state: State, recheck_s: float) -> bool:
        """For every generation and every start anew, while a check holds it every `recheck_s`, never while ranks are started."""
        if name in self._running or state.phase in STARTING:
            return False
        last = self.current(name, state)
        if last is None or name in self._anew:
            return True
        if state.phase in ANEW and last.at < state.since:
            return True
        held = state.phase is Phase.HELD and state.hold is not None and state.hold.fact.startswith("check:")
        waiting = held or state.phase is Phase.PRECHECK or any(one.passing for one in last.findings)
        return clock.now() - last.at >= (recheck_s if waiting else EVERY_S)

    def current(self, name: str, state: State) -> Checked | None:
        """What the last run found, as far as it is of what is there now."""
        last = self.found.get(name)
        return None if last is None else last.current(state)

    def start(self, group: TaskGroup, cluster: Cluster, deployment: Deployment, state: State, seen: Snapshot) -> None:
        """Run the checks beside the loop."""
        group.start_soon(self.run, cluster, deployment, state, seen)

    async def run(self, cluster: Cluster, deployment: Deployment, state: State, seen: Snapshot) -> None:
        """One run of the checks of a deployment, begun after this call: by it, or by another caller that waited too."""
        asked = clock.now()
        while (under_way := self._running.get(deployment.name)) is not None:
            await under_way.wait()
            last = self.found.get(deployment.name)
            if last is not None and last.at >= asked:
                return
        ended = self._running[deployment.name] = anyio.Event()
        began, of = clock.now(), about(state)
        try:
            check = partial(self.check, cluster, deployment, state, seen)
            checked = await guarded(check, "checks", deployment.name)
            # A bug in one check must not keep a deployment from starting either.
            self.found[deployment.name] = checked or Checked(began, clock.now() - began, (BUG,), *of)
        finally:
            # Also when the caller was cancelled: others may wait for this run.
            del self._running[deployment.name]
            ended.set()
            self.wake()

    async def check(self, cluster: Cluster, deployment: Deployment, state: State, seen: Snapshot) -> Checked:
        """One run of all checks that apply to the deployment."""
        began = clock.now()
        self._anew.discard(deployment.name)
        said = run.levels(cluster, deployment)
        checks = run.chosen(all_checks(), deployment, said)
        scene = Scene(
            cluster=cluster,
            deployment=deployment,
            owner=self.owner,
            running=state.phase in ASK_ENGINE,
            nodes={node: seen.nodes[node] for node in deployment.nodes},
            longest_start_s=total_s(state.learned, state.launch.profile or deployment.profile or ""),
            secrets=await files.aside(partial(secret_files.unread, deployment.secrets)),
            veil=await files.aside(partial(Redactor.of, deployment)),
        )
        scene = await beside(self.asking, self.surveyor.survey(scene, checks), deployment)
        if any(check.code == drift_since_known_good.CODE for check in checks):
            scene = replace(scene, drift=await self.before_start(scene))
        for node, boots in scene.each(BOOTS):
            boot = scene.nodes[node].boot
            if isinstance(boot, Boot):
                self.boots[node] = (boot.identity, boots)
        found = [bounded(f"check {check.code}", run.evaluate, [check], scene, said) for check in checks]
        findings = [(_bug(one),) if isinstance(one, Unread) else one for one in found]
        told = tuple(finding for of_check in findings for finding in of_check)
        return Checked(began, clock.now() - began, told, *about(state))
