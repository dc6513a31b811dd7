"""Giving up visibly: a hold names its fact, and goes when the fact passes (DESIGN rule 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkd.decide import memory_low, needs
from sparkd.decide.case import Case, decide
from sparkd.decide.memory_need import enough
from sparkd.model.check import Status
from sparkd.model.decision import Decision, FailureClass, Hold, Phase, State


def hold(case: Case, state: State, cls: FailureClass, fact: str, text: str, fix: str) -> Decision:
    """Enter the hold, naming the fact."""
    kind = fact.partition(":")[0]
    # Broken hardware that a check saw may look well again by itself; whether it is, a person says.
    heals = kind in HEALS and (kind, cls) != ("check", FailureClass.HARDWARE)
    held = replace(
        state,
        phase=Phase.HELD,
        since=case.now,
        since_wall=case.snapshot.wall,
        hold=Hold(cls, fact, text, fix, heals_itself=heals),
        retry_at=None,
        before=None,
    )
    sentence = f"held: {text}"
    return decide(held, sentence, f"held-{kind}", events=[("held", sentence)])


def healed(case: Case, fact: str) -> bool:
    """Does the fact that caused the hold pass now? Unknown is not a pass."""
    kind, _, rest = fact.partition(":")
    return kind in HEALS and HEALS[kind](case, rest.partition(":")[0])


def _source_there(kind: str) -> Callable[[Case, str], bool]:
    def there(case: Case, node: str) -> bool:
        still = any((one.kind, one.node) == (kind, node) for one in needs.missing(case))
        return not still and node not in needs.unasked(case)

    return there


def _check_passes(case: Case) -> bool:
    """The checks have run since, and the one that failed does so no more."""
    checked, held = case.snapshot.checks.get(case.deployment.name), case.state.hold
    if checked is None or held is None or checked.at < case.state.since:
        return False
    mine = [one.status for one in checked.findings if one.fact == held.fact]
    return not {Status.FAIL, Status.UNKNOWN} & set(mine)


def _runs_something_else(case: Case) -> bool:
    """Another file, or another image behind the same tag, than the one whose rank ended that way."""
    before = dict(case.state.images)
    moved = any(before.get(node, image) != image for node, image in needs.images(case).items())
    return moved or case.state.digest != case.deployment.digest


# Only budget, hardware and unclassified holds wait for a person.
HEALS: Mapping[str, Callable[[Case, str], bool]] = {
    "image": _source_there("image"),
    "mount": _source_there("mount"),
    "path": _source_there("path"),
    "device": _source_there("device"),
    "user": _source_there("user"),
    "port": lambda case, node: needs.port_taken(case) is None,
    "name": lambda case, node: not case.group.foreign,
    "memory": lambda case, node: enough(case),
    "memory-guard": memory_low.passes,
    "stray": lambda case, node: not case.group.leftovers,
    "check": lambda case, node: _check_passes(case),
    "exit": lambda case, node: _runs_something_else(case),
    # Both are waited for in a way of their own: see `hardware` and `maintenance`.
    "node": lambda case, node: node not in case.group.unread,
    "maintenance": lambda case, node: getattr(case.snapshot.upkeep.get(node), "maintenance", None) is None,
    # Asked only once everything is verified gone, which is the fact.
    "gone": lambda case, node: True,
}
"""Kind of fact -> does it pass (case, node)?"""
