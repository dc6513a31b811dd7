"""One action to its outcome: looked up in a table, under a deadline, with every error turned into a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from sparkd.act import canary, capture, cleanup, containers
from sparkd.act.hands import ActionFailed, Hands
from sparkd.base import clock, files, own_time
from sparkd.base.errors import SparkdError
from sparkd.base.redact import Redactor
from sparkd.model.action import (
    Action,
    AskSanity,
    CaptureEvidence,
    CleanNodes,
    KillProcesses,
    RemoveRanks,
    SendCanary,
    StartRanks,
    StopRanks,
    WarmUp,
)
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Canary, Outcome

Deed = Callable[[Hands, Any], Awaitable[object]]

DEEDS: dict[type[Any], tuple[Deed, Callable[[Any], float]]] = {
    CaptureEvidence: (capture.capture, lambda action: 10.0),
    StopRanks: (containers.stop, lambda action: action.grace_s + 30.0),
    RemoveRanks: (containers.remove, lambda action: 60.0),
    KillProcesses: (containers.kill, lambda action: 10.0),
    CleanNodes: (cleanup.clean, cleanup.limit_s),
    StartRanks: (containers.start, lambda action: 90.0),
    WarmUp: (canary.warm_up, lambda action: action.timeout_s + 5.0),
    SendCanary: (canary.canary, lambda action: action.timeout_s + 5.0),
    AskSanity: (canary.ask_sanity, lambda action: action.timeout_s + 5.0),
}
"""Action -> what does it, and how long it may take in seconds."""


async def perform(hands: Hands, action: Action) -> Outcome:
    """Do it. Returns an Outcome for success, failure and a passed deadline alike, without secrets in its words; only
    cancellation gets out."""
    outcome = await _outcome(hands, action)
    if not _says_something(outcome):
        return outcome
    redact = await files.aside(partial(Redactor.of, hands.deployment))
    return redact.outcome(outcome)


def _says_something(outcome: Outcome) -> bool:
    """Text from outside. Of a canary every five seconds that was answered nothing is kept."""
    value = outcome.value
    said = value.why or value.said if isinstance(value, Canary) else value
    return bool(outcome.error or said)


async def _outcome(hands: Hands, action: Action) -> Outcome:
    deed, limit = DEEDS[type(action)]
    try:
        with own_time.fail_after(limit(action)):
            value = await deed(hands, action)
    except TimeoutError:
        return Outcome(action, False, clock.now(), f"not done within {limit(action):.0f} s", FailureCode.TIMEOUT)
    except ActionFailed as failure:
        return Outcome(action, False, clock.now(), str(failure), failure.code, failure.node)
    except SparkdError as error:
        return Outcome(action, False, clock.now(), str(error), FailureCode.ERROR, getattr(error, "node", ""))
    return Outcome(action, True, clock.now(), value=value)


def describe(action: Action) -> str:
    """One clause for the journal."""
    return WORDS[type(action)](action)


def result(outcome: Outcome) -> str:
    """What came of it, for the journal; nothing where that it was done says it all."""
    return (
        cleanup.words(outcome.value)
        if isinstance(outcome.action, CleanNodes) and isinstance(outcome.value, dict)
        else ""
    )


def _where(action: Any) -> str:
    return ", ".join(f"rank {one.rank} on {one.node} (generation {one.generation})" for one in action.targets)


WORDS: dict[type[Any], Callable[[Any], str]] = {
    CaptureEvidence: lambda action: f"save the evidence of generation {action.generation}",
    StopRanks: lambda action: f"stop {_where(action)}",
    RemoveRanks: lambda action: f"remove {_where(action)}",
    KillProcesses: lambda action: "kill " + ", ".join(f"pid {one.pid} on {one.node}" for one in action.targets),
    CleanNodes: lambda action: f"clean {', '.join(action.nodes)} for generation {action.generation}",
    StartRanks: lambda action: f"start rank {', '.join(map(str, action.ranks))} as generation {action.generation}",
    WarmUp: lambda action: f"warm up generation {action.generation}",
    SendCanary: lambda action: f"canary to generation {action.generation}",
    AskSanity: lambda action: f"fixed question to generation {action.generation}",
}
