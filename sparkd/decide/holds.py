"""Giving up visibly: a hold names its fact, and goes when the fact passes (DESIGN rule 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkd.decide import needs
from sparkd.decide.case import Case, decide
from sparkd.model.decision import Decision, FailureClass, Hold, Phase, State


def hold(case: Case, state: State, cls: FailureClass, fact: str, text: str, fix: str) -> Decision:
    """Enter the hold, naming the fact."""
    kind = fact.partition(":")[0]
    held = replace(
        state,
        phase=Phase.HELD,
        since=case.now,
        since_wall=case.snapshot.wall,
        hold=Hold(cls, fact, text, fix, heals_itself=kind in HEALS),
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


# Only budget, hardware and unclassified holds wait for a person.
HEALS: Mapping[str, Callable[[Case, str], bool]] = {
    "image": _source_there("image"),
    "mount": _source_there("mount"),
    "port": lambda case, node: needs.port_taken(case) is None,
    "name": lambda case, node: not case.group.foreign,
    "exit": lambda case, node: case.state.digest != case.deployment.digest,
    # Asked only once everything is verified gone, which is the fact.
    "gone": lambda case, node: True,
}
"""Kind of fact -> does it pass (case, node)?"""
