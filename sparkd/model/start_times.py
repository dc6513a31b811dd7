"""What the stages of starts took, learned of each profile and of cold and warm caches; and when a stage takes too long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

REMEMBERED = 5
"""Starts of each kind whose stages are kept one by one."""
KINDS = 8
"""Kinds of starts that are kept of a deployment: cold and warm of four profiles. Profiles come and go with the file."""

SUSPECT_TIMES = 3.0
"""A stage that takes so many times what it ever took is suspect. Cleanups drop the page cache, so weights are always read anew."""
SUSPECT_AT_LEAST_S = 60.0
"""But none is before this: ranks of a real two-node start were up to 12 s apart (evidence 07), slower disks more."""
UNSEEN_S = 180.0
"""The same for a stage that was never seen to end."""

Seconds = tuple[tuple[str, float], ...]
"""Stage -> seconds, in the order of the start."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Of starts that ended with an answer and were seen whole: those of one profile, with cold or with warm caches."""

    profile: str = ""
    warm: bool = False
    longest: Seconds = ()
    """The most that each stage ever took."""
    total_s: float = 0.0
    """The most that such a start ever took as a whole."""
    recent: tuple[Seconds, ...] = ()
    """The last of them one by one, newest last."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A stage that takes too long. `longest_s` is the most that it ever took, None where it was never seen to end."""

    stage: str
    lasted_s: float
    longest_s: float | None
    limit_s: float


def learned(
    known: Sequence[StageTimes], profile: str, warm: bool, seconds: Mapping[str, float], total_s: float
) -> tuple[StageTimes, ...]:
    """With one start more. What was learned last comes last; of too many kinds the one that was longest ago is forgotten."""
    before = of_kind(known, profile, warm) or StageTimes(profile, warm)
    longest = dict(before.longest)
    longest |= {stage: max(s, longest.get(stage, 0.0)) for stage, s in seconds.items()}
    recent = (*before.recent, tuple(seconds.items()))[-REMEMBERED:]
    after = StageTimes(profile, warm, tuple(longest.items()), max(before.total_s, total_s), recent)
    return (*(one for one in known if one is not before), after)[-KINDS:]


def of_kind(known: Iterable[StageTimes], profile: str, warm: bool) -> StageTimes | None:
    """What was learned of starts of exactly this kind."""
    return next((one for one in known if (one.profile, one.warm) == (profile, warm)), None)


def longest_s(known: Sequence[StageTimes], profile: str, warm: bool, stage: str) -> float | None:
    """The most that a stage ever took in such a start, or in a cold one where no warm one is known: a warm one takes no longer.
    None where it was never seen to end."""
    kinds = (of_kind(known, profile, warm), of_kind(known, profile, False) if warm else None)
    return next((dict(one.longest)[stage] for one in kinds if one is not None and stage in dict(one.longest)), None)


def total_s(known: Iterable[StageTimes], profile: str) -> float | None:
    """The most that any start of this profile ever took, None where none is known."""
    return max((one.total_s for one in known if one.profile == profile), default=None)


def recent(known: Sequence[StageTimes], profile: str, warm: bool) -> tuple[dict[str, float], ...]:
    """The last starts of this kind, stage by stage, newest last; of the other temperature where there are none."""
    one = of_kind(known, profile, warm) or of_kind(known, profile, not warm)
    return tuple(dict(seconds) for seconds in one.recent) if one is not None else ()


def limit_s(longest: float | None) -> float:
    """For so long a stage may take before it is suspect; `longest` is the most that it ever took."""
    return UNSEEN_S if longest is None else max(SUSPECT_AT_LEAST_S, SUSPECT_TIMES * longest)


def overdue(
    stages: Sequence[tuple[str, float]], known: Sequence[StageTimes], profile: str, warm: bool, now: float
) -> Overdue | None:
    """The stage under way, where it is suspect. `stages` are (name, began at), the last of them under way."""
    if not stages:
        return None
    stage, began = stages[-1]
    longest = longest_s(known, profile, warm, stage)
    limit = limit_s(longest)
    return Overdue(stage, now - began, longest, limit) if now - began > limit else None
