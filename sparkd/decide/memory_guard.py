"""The guard: a node whose memory runs out while a group loads or serves. Said with who takes it; stopped where that is wanted.

Boxes lock up in loading before any OOM killer comes (vllm#46307: SSH was gone at 7 GiB), and then only a power cycle helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sparkd.decide import memory_drain
from sparkd.decide.case import Case
from sparkd.decide.classify import Kind
from sparkd.decide.failing import fail
from sparkd.decide.memory_low import SIGNATURE, Low, available, guard_of, low
from sparkd.decide.memory_taker import Growth
from sparkd.model.config import Deployment
from sparkd.model.decision import STARTING, Decision, FailureClass, Phase, State
from sparkd.model.memory_trail import Guard, MemoryEpisode, MemoryTrail
from sparkd.model.size import spoken

RECOVERED = 4
"""An episode is over once the node has the guard and this part of it more, or MORE_BYTES: around the guard itself it would begin
anew with every look, and a quarter of a large guard may be more than the node ever has."""
MORE_BYTES = 1 << 30
GOING_S = 15.0
"""For so long after one deployment was taken down, no other is: its memory is coming back."""
GUARDED = STARTING | {Phase.SERVE}
"""Phases that `stop` ends."""


# ------------------------------------------------------------------------------------------------------------ who goes


def turns(here: Iterable[Deployment], states: Mapping[str, State], default: Guard) -> tuple[str, ...]:
    """Those of a node's deployments that may be stopped for its memory: what starts goes before what serves."""
    may = {one.name: states[one.name].phase for one in here if guard_of(one, default)[1] == "stop"}
    return tuple(sorted((name for name in may if may[name] in GUARDED), key=lambda one: (may[one] is Phase.SERVE, one)))


def going(here: Iterable[Deployment], states: Mapping[str, State], now: float) -> str:
    """The one of them that was taken down for the node's memory a moment ago; empty where there is none."""
    for one in here:
        failure, phase = states[one.name].failure, states[one.name].phase
        stopped = failure is not None and failure.signature == SIGNATURE and now - failure.at < GOING_S
        if stopped and phase in (Phase.BACKOFF, Phase.HELD):
            return one.name
    return ""


def _its_turn(name: str, trail: MemoryTrail, growth: Growth | None) -> bool:
    """One at a time: first the one whose rank grows, then what starts, then what serves."""
    if trail.going or not trail.turns:
        return not trail.going
    first = growth.deployment if growth is not None and growth.deployment in trail.turns else trail.turns[0]
    return first == name


# --------------------------------------------------------------------------------------------------------------- stop


def stop(case: Case) -> Decision | None:
    """The end of this generation, where its file says so and a node of it runs out of memory."""
    below, act = guard_of(case.deployment, case.snapshot.guard)
    if act != "stop":
        return None
    for node, view in case.group.views.items():
        trail = case.snapshot.memory.get(node, MemoryTrail())
        found = low(node, trail, view, below)
        if found is not None and _its_turn(case.deployment.name, trail, found.growth):
            kind = Kind(FailureClass.RESOURCE, SIGNATURE, "a node runs out of memory", fix=found.fix)
            text = f"{found.text}; the group is stopped before {node} locks up"
            return fail(case, kind, text, evidence=_figures(node, trail), fact=_fact(case, found))
    return None


def _figures(node: str, trail: MemoryTrail) -> tuple[str, ...]:
    """What was looked at: the last figures, and who had most of it."""
    shown = [spoken(available(one)) for one in trail.looks[-5:] if one.memory is not None]
    told = next((one.holders for one in reversed(trail.looks) if one.holders is not None), None)
    biggest = f"{told.processes[0].title} (pid {told.processes[0].pid})" if told and told.processes else ""
    who = (f"{node}: the biggest process is {biggest}",) if biggest else ()
    return (f"{node}: {', '.join(shown)} available, one look after the other", *who)


def _fact(case: Case, found: Low) -> str:
    """It takes more than the node had before this start: so much that the guard would not have been reached."""
    before = dict(case.state.memory_before).get(found.node, 0)
    return f"{SIGNATURE}:{found.node}:{before + found.below - found.available if before else found.below}"


# --------------------------------------------------------------------------------------------------------------- tell


def account(case: Case, decision: Decision) -> Decision:
    """The decision with the times in its state in which memory runs out or drains, each told once, when it begins."""
    before = {(one.kind, one.node): one for one in case.state.memory}
    after = dict(_episodes(case, decision, before))
    if not before and not after:
        return decision
    begun = [one for key, one in after.items() if key not in before and not one.acted]
    over = [one for key, one in before.items() if key not in after]
    events = [(f"memory-{one.kind}", one.text) for one in begun] + [("memory-back", _back(case, one)) for one in over]
    state = replace(decision.state, memory=tuple(after.values()))
    return replace(decision, state=state, events=(*decision.events, *events))


Known = Mapping[tuple[str, str], MemoryEpisode]


def _episodes(case: Case, decision: Decision, before: Known) -> Iterator[tuple[tuple[str, str], MemoryEpisode]]:
    below, _ = guard_of(case.deployment, case.snapshot.guard)
    failure = decision.state.failure
    acted = failure is not None and failure != case.state.failure and failure.signature == SIGNATURE
    for node, view in case.group.views.items():
        trail, wall = case.snapshot.memory.get(node, MemoryTrail()), case.snapshot.wall
        known = before.get(("low", node))
        if known is not None and not _recovered(trail, below):
            yield ("low", node), known
        elif known is None and (found := low(node, trail, view, below)) is not None:
            yield ("low", node), MemoryEpisode("low", node, wall, found.available, found.text, found.fix, acted)
        slow = before.get(("drain", node))
        if slow is not None and not memory_drain.stopped(slow, trail):
            yield ("drain", node), slow
        elif slow is None and (lost := memory_drain.drain(node, trail, view, below)) is not None:
            fix = f"sparkd ctl nodes shows what {node} has; a restart of what grows gives it back"
            yield ("drain", node), MemoryEpisode("drain", node, wall, lost.available, lost.text, fix)


def _recovered(trail: MemoryTrail, below: int) -> bool:
    """By the last look; what it could not read has not recovered."""
    newest = trail.looks[-1] if trail.looks else None
    enough = below + min(below // RECOVERED, MORE_BYTES)
    return newest is not None and newest.memory is not None and newest.memory.available >= enough


def _back(case: Case, episode: MemoryEpisode) -> str:
    trail = case.snapshot.memory.get(episode.node, MemoryTrail())
    known = [one for one in trail.looks if one.memory is not None]
    has = f": {spoken(available(known[-1]))} available" if known else ""
    word = "has memory again" if episode.kind == "low" else "loses no more memory"
    return f"{episode.node} {word}{has}"
