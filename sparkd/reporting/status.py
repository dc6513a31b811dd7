"""A `ClusterView` turned into the JSON object that `ctl status --json`, `/api/v1/status` and the page show. Pure."""

from __future__ import annotations

from typing import Any

from sparkd.decide import budget
from sparkd.decide.maintenance import DRAINING
from sparkd.drift.difference import Severity
from sparkd.model.check import Status
from sparkd.model.config import BrokenDeployment, Deployment
from sparkd.model.decision import Failure, FailureClass, Hold, Intent, Phase, State
from sparkd.model.machine import Memory
from sparkd.model.snapshot import Unknown
from sparkd.model.start_times import Overdue, overdue, recent
from sparkd.model.view import ClusterView, Pending, eta_s, stage_seconds
from sparkd.model.words import STARTING, awaited, headline, reasoned, rfc3339
from sparkd.reporting import config_changes, node_upkeep, outage_list
from sparkd.reporting.memory_alerts import memory_alerts
from sparkd.reporting.rank_status import BRINGING_UP, NOT_LOOKED, moment, rank_status, seen
from sparkd.reporting.sanity_status import sanity_status

Json = dict[str, Any]

AT_REST = (Phase.STOPPED, Phase.HELD, Phase.BACKOFF)
GONE = ("exited", "absent", "widowed", "stale")
"""Rank states that are proof against serving; `unknown` is none (rule 1: unknown is not dead)."""


def status(view: ClusterView) -> Json:
    """Everything a person or script may want to know, `schema` 1. `verdict` is the same in words."""
    found: Json = {
        "schema": 1,
        "cluster": view.cluster,
        "at": rfc3339(view.wall),
        "daemon": {
            "version": view.daemon.version,
            "owner": view.daemon.owner,
            "since": rfc3339(view.daemon.since_wall),
            "loop_age_s": round(view.daemon.loop_age_s, 3),
            "read_only_disk": view.daemon.read_only_disk,
            "problems": list(view.daemon.problems),
        },
        "deployments": [deployment_status(view, deployment) for deployment in view.deployments],
        "nodes": [node_status(view, name) for name in view.nodes or seen(view)],
    }
    return found | {"verdict": headline(found)}


# -------------------------------------------------------------------------------------------------------- deployments


def deployment_status(view: ClusterView, deployment: Deployment | BrokenDeployment) -> Json:
    """One entry of `deployments`."""
    state = view.states.get(deployment.name, State())
    ranks = [rank_status(view, deployment, state, *place) for place in _places(view, deployment)]
    if isinstance(deployment, BrokenDeployment):
        return _common(view, deployment, state, ranks, serving=False) | _broken(view, deployment)
    serving = _serving(state, ranks)
    pending = view.pending.get(deployment.name, Pending())
    changed = bool(pending.changes) or (bool(state.digest) and state.digest != deployment.digest)
    return _common(view, deployment, state, ranks, serving) | {
        "restart_pending": changed and state.phase not in AT_REST,
        "pending": config_changes.as_json(pending) if pending != Pending() else None,
        "problems": list(pending.problems),
    }


def _common(
    view: ClusterView, deployment: Deployment | BrokenDeployment, state: State, ranks: list[Json], serving: bool
) -> Json:
    name = deployment.name
    intent = view.intents.get(name, Intent())
    decision = view.decisions.get(name)
    planned = decision.next if decision else None
    said = decision.sentence if decision else state.sentence
    down_since = state.outage.began if state.outage is not None else state.watch.canary_failing_since
    return {
        "name": name,
        "wanted": intent.wanted,
        "phase": str(state.phase),
        "serving": serving,
        "since": rfc3339(state.since_wall) if state.since_wall else moment(view, state.since),
        "generation": state.generation,
        "profile": intent.profile or getattr(deployment, "profile", None),
        "sentence": reasoned(said, intent.message) if state.phase is Phase.PAUSED else said,
        "reason": decision.reason if decision else state.reason,
        "hold": _hold(name, state.hold) if state.hold and _is_held(state) else None,
        "restart_pending": False,
        "pending": None,
        "next": {"at": moment(view, planned.at), "what": planned.what} if planned else None,
        "budget_until": _budget_until(view, deployment, state, intent),
        "start": _start(view, name, state) if state.phase in STARTING else None,
        **_what_failed(view, name, state),
        "effort": _effort(view, state),
        "drift": {str(one): view.drift.get(name, {}).get(str(one), 0) for one in Severity},
        "checks": _checks(view, name, state),
        "ranks": ranks,
        "paused": intent.paused,
        "cause": str(state.cause) if state.cause else None,
        "serving_since": _serving_since(view, state) if serving else None,
        "down_since": None if serving else moment(view, down_since),
        "canary": _canary(view, name, state),
        "sanity": sanity_status(state),
        "problems": [],
        "file": deployment.file,
    }


def _what_failed(view: ClusterView, name: str, state: State) -> Json:
    return {
        "last_failure": _failure(state.failure) if state.failure else None,
        "outage": outage_list.as_json(name, state.outage, view.at) if state.outage else None,
        "last_outage": outage_list.as_json(name, state.last_outage, view.at) if state.last_outage else None,
    }


def _budget_until(
    view: ClusterView, deployment: Deployment | BrokenDeployment, state: State, intent: Intent
) -> str | None:
    """Until when the next start waits for the window of automatic starts. Also while sparkd looks first, or a node is unread."""
    waits = Phase.BACKOFF in (state.phase, state.before if state.phase is Phase.ADOPTING else None)
    if not waits or intent.wanted != "up" or state.cause in budget.FREE or isinstance(deployment, BrokenDeployment):
        return None
    spent = budget.spent(deployment.policy.budget, state.starts, view.at)
    return moment(view, spent.until) if spent is not None else None


def _checks(view: ClusterView, name: str, state: State) -> Json:
    """How many checks found what, at their last run; none where that was of an earlier generation."""
    checked = view.snapshot.checks.get(name) if view.snapshot is not None else None
    checked = checked.current(state) if checked is not None else None
    return dict(checked.counts) if checked is not None else dict.fromkeys(map(str, Status), 0)


def _broken(view: ClusterView, deployment: BrokenDeployment) -> Json:
    """What differs where the file cannot be used: held by its own text, until the file is right."""
    problems = list(deployment.problems) or [f"{deployment.file} cannot be used"]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    fix = f"correct {deployment.file}, then `sparkd config check` and `sparkd ctl reload`"
    hold = Hold(FailureClass.PERMANENT, "config", "\n".join(problems), fix, heals_itself=False)
    return {
        "phase": str(Phase.HELD),
        "sentence": f"its file cannot be used: {problems[0]}{more}",
        "reason": "held-config",
        "hold": _hold(deployment.name, hold),
        "since": rfc3339(view.daemon.since_wall),
        "next": None,
        "budget_until": None,
        "start": None,
        "problems": problems,
    }


def _is_held(state: State) -> bool:
    """A sparkd that has just started looks first, and what was held before is held meanwhile."""
    return state.phase is Phase.HELD or (state.phase is Phase.ADOPTING and state.before is Phase.HELD)


def _hold(name: str, hold: Hold) -> Json:
    return {
        "class": str(hold.cls),
        "fact": hold.fact,
        "text": hold.text,
        "fix": hold.fix,
        "heals_itself": hold.heals_itself,
        "awaits": awaited(hold.fact, name) if hold.heals_itself else None,
    }


def _serving(state: State, ranks: list[Json]) -> bool:
    """Answers real requests, as far as is known: they do not fail and no rank is proven gone. An unread node changes nothing."""
    serves = state.phase is Phase.SERVE or (state.phase is Phase.PAUSED and state.before is Phase.SERVE)
    down = state.outage is not None and not state.outage.unread_only
    gone = any(rank["state"] in GONE for rank in ranks)
    away = state.watch.not_answering or state.nonsense or state.reason == DRAINING
    return serves and not (away or down or gone)


def _serving_since(view: ClusterView, state: State) -> str | None:
    return rfc3339(state.serving_since_wall) if state.serving_since_wall else moment(view, state.serving_since)


def _start(view: ClusterView, name: str, state: State) -> Json:
    """Until its ranks are started, the stages that are remembered are those of the generation before."""
    stages = state.stages if state.phase in BRINGING_UP else ()
    current, since = stages[-1] if stages else (None, state.since)
    lasted = {stage: round(s, 1) for stage, s in stage_seconds(stages, view.at).items() if stage != current}
    launch, learned = state.launch, state.learned
    late = overdue(stages, learned, launch.profile, launch.warm, view.at)
    # A stage that takes longer than ever makes any guess at the end a wrong one.
    earlier = recent(learned, launch.profile, launch.warm) or view.earlier.get(name, ())
    eta = eta_s(stages, view.at, earlier) if late is None else None
    return {
        "stage": current,
        "stage_since": moment(view, since),
        "eta_s": None if eta is None else round(eta, 1),
        "suspect": _suspect(late) if late is not None else None,
        "stages": [
            {"name": stage, "started_at": moment(view, began), "seconds": lasted.get(stage)} for stage, began in stages
        ],
    }


def _suspect(late: Overdue) -> Json:
    return {
        "stage": late.stage,
        "seconds": round(late.lasted_s, 1),
        "longest_s": late.longest_s,
        "limit_s": round(late.limit_s, 1),
    }


def _failure(failure: Failure) -> Json:
    return {
        "generation": failure.generation,
        "class": str(failure.cls),
        "signature": failure.signature,
        "text": failure.text,
        "at": rfc3339(failure.wall),
        "outage_s": failure.outage_s,
        "rank": failure.rank,
        "exit_code": failure.exit_code,
        "evidence": list(failure.evidence),
    }


def _effort(view: ClusterView, state: State) -> Json | None:
    """What the nodes do while something is suspicious: a prefill and a spin look alike in everything else."""
    watch = state.watch
    if not watch.busy:
        return None
    return {
        "says": watch.busy,
        "text": watch.busy_said,
        "worked_at": moment(view, watch.worked_at),
        "waiting_w": dict(state.waiting_w),
    }


def _canary(view: ClusterView, name: str, state: State) -> Json | None:
    canary = view.canaries.get(name)
    if canary is None or canary.generation != state.generation:
        return None
    return {
        "at": moment(view, canary.ended_at),
        "ok": canary.ok,
        "why": canary.why or None,
        "tokens_per_second": canary.tokens_per_second,
        "first_token_s": canary.first_token_s,
    }


# -------------------------------------------------------------------------------------------------------------- ranks


def _places(view: ClusterView, deployment: Deployment | BrokenDeployment) -> list[tuple[int, str]]:
    """(rank, node) of every rank: from the file or, where the file is broken, from the containers that are there."""
    if isinstance(deployment, Deployment):
        return list(enumerate(deployment.nodes))
    found = [(c, node.name) for node in seen(view).values() for c in node.ranks]
    return sorted({(c.rank, where) for c, where in found if c.deployment == deployment.name})


# -------------------------------------------------------------------------------------------------------------- nodes


def node_status(view: ClusterView, name: str) -> Json:
    """One entry of `nodes`: `ok` when its ranks can be judged, else `unknown` with why and since."""
    node = seen(view).get(name)
    unread = node.unread if node is not None else NOT_LOOKED
    boot = node.boot if node is not None and not isinstance(node.boot, Unknown) else None
    memory = node.memory if node is not None and isinstance(node.memory, Memory) else None
    since = (unread.since or None) if unread else view.node_since.get(name)
    return {
        "name": name,
        "state": "unknown" if unread else "ok",
        "since": moment(view, since),
        "why": unread.why if unread else None,
        "code": unread.code if unread else None,
        "boot_at": rfc3339(view.snapshot.wall - boot.uptime_s) if boot and view.snapshot else None,
        "system": node.system if node is not None and isinstance(node.system, str) else None,
        "memory": {field: getattr(memory, field) for field in Memory.__dataclass_fields__} if memory else None,
        "memory_alerts": memory_alerts(view.states, name),
        **node_upkeep.as_json(view, name),
    }
