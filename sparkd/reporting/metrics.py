"""What is counted where it happens, and a `ClusterView` turned into families of metrics: reads what is ready, waits for nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from sparkd.model.check import Status
from sparkd.model.decision import Cause, FailureClass, Phase, State
from sparkd.model.machine import Boot, Memory
from sparkd.model.snapshot import EngineMetrics
from sparkd.model.view import ClusterView
from sparkd.reporting.memory_alerts import KINDS as ALERTS
from sparkd.reporting.node_upkeep import planned_stop

MINUTES = (1, 2, 5, 10, 20, 40, 60, 120, 300, 600, 900, 1200, 1800, 2700, 3600)
"""Buckets in seconds for phases and stages: a first boot of 40 minutes is normal."""
ANSWERS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
LOOPS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 10, 30)
WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")
SIGNATURES = 200
"""Different signatures of one deployment; the tables that ship with sparkd have fewer."""
UP = ("up", "starting", "widowed", "frozen")


class Counters:
    """What happened, counted where it happens. Labels are names from configuration and from sparkd's own tables."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        name = "deployment"
        self._starts = counter("sparkd_group_starts", "Starts of all ranks together, by cause.", [name, "cause"])
        self._failures = counter("sparkd_failures", "Failures, by class and signature.", [name, "class", "signature"])
        self._outage = counter(
            "sparkd_outage_seconds", "Time it was down, of outages that ended and nobody asked for.", [name]
        )
        self._phases = histogram(
            "sparkd_phase_duration_seconds", "Time spent in a phase.", [name, "phase"], buckets=MINUTES
        )
        self._stages = histogram(
            "sparkd_start_stage_seconds", "Time of a start-up stage.", [name, "stage"], buckets=MINUTES
        )
        self._canaries = histogram("sparkd_canary_seconds", "Time of a real completion.", [name], buckets=ANSWERS)
        self._loop = histogram("sparkd_loop_duration_seconds", "Time of one turn of the loop.", buckets=LOOPS)
        self._notices = counter(
            "sparkd_notifications", "Notifications, by channel and how it ended.", ["channel", "outcome"]
        )
        self._signatures: dict[str, set[str]] = {}
        self._known: set[str] = set()
        self.counted = 0
        """How often anything was counted."""

    def know(self, deployment: str, outage_s: float = 0.0) -> None:
        """Begin every counter of a deployment at 0: a rate over a first event needs the point before it.

        Outages are counted from their records, which outlive sparkd: those that ended before go on being counted.
        """
        for cause in Cause:
            self._starts.labels(deployment, cause)
        if deployment not in self._known:
            self._known.add(deployment)
            self._outage.labels(deployment).inc(max(0.0, outage_s))
        self.counted += 1

    def started(self, deployment: str, cause: str) -> None:
        """One group start; `cause` is a `Cause`."""
        self._starts.labels(deployment, _one_of(cause, Cause)).inc()
        self.counted += 1

    def failed(self, deployment: str, cls: str, signature: str) -> None:
        """One failure; `signature` is an id of sparkd's tables."""
        known = self._signatures.setdefault(deployment, set())
        fits = WORD.fullmatch(signature) is not None and (signature in known or len(known) < SIGNATURES)
        shown = signature if fits else "other"
        known.add(shown)
        self._failures.labels(deployment, _one_of(cls, FailureClass), shown).inc()
        self.counted += 1

    def outage(self, deployment: str, seconds: float) -> None:
        """Counts the down time of an outage that has ended and that no person caused; unread time is not in it."""
        self._outage.labels(deployment).inc(max(0.0, seconds))
        self.counted += 1

    def phase(self, deployment: str, phase: str, seconds: float) -> None:
        """A phase that was left."""
        self._phases.labels(deployment, _one_of(phase, Phase)).observe(max(0.0, seconds))
        self.counted += 1

    def stage(self, deployment: str, stage: str, seconds: float) -> None:
        """A start-up stage that is over."""
        self._stages.labels(deployment, stage if WORD.fullmatch(stage) else "other").observe(max(0.0, seconds))
        self.counted += 1

    def canary(self, deployment: str, seconds: float, tokens_per_second: float | None = None) -> None:
        """A real completion that ended; its rate is shown from the view."""
        self._canaries.labels(deployment).observe(max(0.0, seconds))
        self.counted += 1

    def loop(self, seconds: float) -> None:
        """One turn of the loop."""
        self._loop.observe(max(0.0, seconds))
        self.counted += 1

    def notified(self, channel: str, outcome: str) -> None:
        """One notification, sent or given up."""
        self._notices.labels(channel, outcome).inc()
        self.counted += 1


def _one_of(value: str, known: Iterable[str]) -> str:
    return value if value in {str(one) for one in known} else "other"


Json = Mapping[str, Any]


def gauge(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], Any]]) -> Metric:
    """One family; rows are the values of its labels and a number. What is no number is left out."""
    family = GaugeMetricFamily(f"sparkd_{name}", text, labels=labels)
    for values, number in rows:
        if number is not None and abs(number) < 2**1000:  # more is no figure of anything, and fits no float
            family.add_metric(values, float(number))
    return family


def _daemon(view: ClusterView, now: Json) -> Iterator[Metric]:
    build = Metric("sparkd_build", "The version that runs.", "info")
    build.add_sample("sparkd_build_info", {"version": view.daemon.version}, 1)
    yield build


FIGURES: tuple[tuple[str, str, Callable[[Json], Any]], ...] = (
    ("wanted", "1 while it is wanted up.", lambda one: one["wanted"] == "up"),
    ("serving", "1 while it answers real requests.", lambda one: one["serving"]),
    ("generation", "Number of the group start that runs, or ran last.", lambda one: one["generation"]),
    ("held", "1 while sparkd has given up starting it.", lambda one: one["phase"] == Phase.HELD),
    ("planned", "1 while it is stopped for planned work on a node.", planned_stop),
)


def _deployments(view: ClusterView, now: Json) -> Iterator[Metric]:
    name, all_of_them = ("deployment",), now["deployments"]
    yield gauge(
        "deployment_phase",
        "1 for the phase that a deployment is in.",
        ("deployment", "phase"),
        [((one["name"], str(phase)), one["phase"] == phase) for one in all_of_them for phase in Phase],
    )
    for metric, text, value in FIGURES:
        yield gauge(f"deployment_{metric}", text, name, [((one["name"],), value(one)) for one in all_of_them])
    rates = [((one["name"],), (one["canary"] or {}).get("tokens_per_second")) for one in all_of_them]
    yield gauge("canary_tokens_per_second", "Rate of the last real completion.", name, rates)


def _ranks(view: ClusterView, now: Json) -> Iterator[Metric]:
    labels = ("deployment", "rank", "node")
    rows = [
        ((one["name"], str(rank["rank"]), rank["node"]), rank) for one in now["deployments"] for rank in one["ranks"]
    ]
    known = [(values, rank["state"] in UP) for values, rank in rows if rank["state"] != "unknown"]
    yield gauge("rank_up", "1 while the rank's container runs; nothing while that is unknown.", labels, known)
    ages = [(values, rank["evidence_age_s"]) for values, rank in rows]
    yield gauge("rank_evidence_age_seconds", "Age of what is known of a rank.", labels, ages)


def _nodes(view: ClusterView, now: Json) -> Iterator[Metric]:
    nodes = view.snapshot.nodes if view.snapshot is not None else {}
    reachable = [
        ((one["name"],), one["name"] in nodes and isinstance(nodes[one["name"]].boot, Boot)) for one in now["nodes"]
    ]
    yield gauge("node_reachable", "1 while the node answers.", ("node",), reachable)
    planned = [((one["name"],), one["maintenance"] is not None) for one in now["nodes"]]
    yield gauge("node_maintenance", "1 while a person has planned work on the node.", ("node",), planned)
    wall = view.snapshot.wall if view.snapshot is not None else 0.0
    boots = [((name,), round(wall - node.boot.uptime_s)) for name, node in nodes.items() if isinstance(node.boot, Boot)]
    yield gauge("node_boot_time_seconds", "When the node booted, as Unix time.", ("node",), boots)
    memory = [
        ((name, kind), getattr(node.memory, kind))
        for name, node in nodes.items()
        if isinstance(node.memory, Memory)
        for kind in Memory.__dataclass_fields__
    ]
    yield gauge("node_memory_bytes", "The one pool of memory, by use.", ("node", "kind"), memory)
    alerts = [
        ((one["name"], kind), any(alert["kind"] == kind for alert in one["memory_alerts"]))
        for one in now["nodes"]
        for kind in ALERTS
    ]
    text = "1 while the node runs out of memory (low), or loses it while idle (drain)."
    yield gauge("node_memory_alert", text, ("node", "kind"), alerts)


CHECK_STATUS = {Status.OK: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3}


def _checks(view: ClusterView, now: Json) -> Iterator[Metric]:
    """The worst that each check found on each node; what is wrong with the deployment itself has no node."""
    worst: dict[tuple[str, str, str], int] = {}
    for name, checked in (view.snapshot.checks if view.snapshot is not None else {}).items():
        current = checked.current(view.states.get(name, State()))
        for one in current.findings if current is not None else ():
            key = (name, one.node or "", one.code)
            worst[key] = max(worst.get(key, 0), CHECK_STATUS[one.status])
    text = "What a check found: 0 ok, 1 warn, 2 fail, 3 unknown."
    yield gauge("check_status", text, ("deployment", "node", "check"), worst.items())


def _drift(view: ClusterView, now: Json) -> Iterator[Metric]:
    text = "In how much what runs differs from what worked; nothing where that is not known."
    rows = [((name, severity), count) for name, counts in view.drift.items() for severity, count in counts.items()]
    yield gauge("drift_findings", text, ("deployment", "severity"), rows)


def _engines(view: ClusterView, now: Json) -> Iterator[Metric]:
    views = view.snapshot.engines if view.snapshot is not None else {}
    read = {name: one.metrics for name, one in views.items() if isinstance(one.metrics, EngineMetrics)}
    requests = [((name, kind), getattr(one, kind)) for name, one in read.items() for kind in ("running", "waiting")]
    yield gauge("engine_requests", "Requests, as the engine counts them.", ("deployment", "state"), requests)
    tokens = CounterMetricFamily(
        "sparkd_engine_tokens", "Tokens, as the engine counts them.", labels=("deployment", "kind")
    )
    for name, one in read.items():
        tokens.add_metric((name, "prompt"), one.prompt_tokens)
        tokens.add_metric((name, "generation"), one.generation_tokens)
    yield tokens
    cache = [((name,), one.kv_cache_usage) for name, one in read.items()]
    yield gauge("engine_kv_cache_usage_ratio", "Part of the KV cache in use.", ("deployment",), cache)
    accepted = [((name, str(at)), part) for name, one in read.items() for at, part in enumerate(one.acceptance)]
    yield gauge(
        "spec_decode_acceptance_ratio", "Part of drafted tokens accepted.", ("deployment", "position"), accepted
    )


PARTS: tuple[Callable[[ClusterView, Json], Iterator[Metric]], ...] = (
    _daemon,
    _deployments,
    _ranks,
    _nodes,
    _checks,
    _drift,
    _engines,
)
