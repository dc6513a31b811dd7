"""Reason codes -> the rule behind them in words, its number last; docs/interfaces.md and the manual page have all of them.

Numbers that a person can set are those of the policy that the decision went by, never the defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sparkd.model.policy import Policy
from sparkd.model.words import duration

TITLES = {
    1: "Unknown is not dead",
    2: "One group, one fate",
    3: "Identity before any signal",
    4: "Evidence belongs to a generation",
    5: "Adopt first",
    6: "Retry by cause",
    7: "A hold names its fact and heals itself",
    8: "Intent wins",
    10: "Slow is not dead",
}
"""The rules that a decision goes by, as docs/interfaces.md calls and numbers them."""


class Rule(NamedTuple):
    """`number` is None for what is no rule of its own, but what a word means."""

    number: int | None
    text: str | Callable[[Policy], str]

    def words(self, policy: Policy) -> str:
        """For people, under this policy."""
        text = self.text if isinstance(self.text, str) else self.text(policy)
        if self.number is None:
            return f"{text[0].upper()}{text[1:]}"
        return f"{TITLES[self.number]}: {text} (rule {self.number})"


def _measured_again(policy: Policy) -> str:
    *earlier, last = [f"{pause:g}" for pause in policy.resource_retries] or [""]
    if not last:
        return "what is missing is not measured again: the start is held"
    pauses = f"{', '.join(earlier)} and {last}" if earlier else last
    return f"what is missing is measured again at {pauses} s, then the start is held"


def _paused_by_budget(policy: Policy) -> str:
    starts, per = policy.budget.starts, duration(policy.budget.per)
    return f"sparkd starts a group by itself {starts} times in {per} at most; the next start waits until that window has room"


def _held_by_budget(policy: Policy) -> str:
    return f"after {policy.budget.per_day} automatic starts in 24 h a person looks first, or allows more in the configuration"


def _not_yet(policy: Policy) -> str:
    return f"for {duration(policy.not_yet)} after a node's boot, what is missing is not yet there"


def _held(policy: Policy) -> str:
    return f"it is read again every {duration(policy.hold_recheck)}, and supervision goes on when it is right"


def _on_nonsense(policy: Policy) -> str:
    once = policy.on_nonsense == "restart-once"
    follows = "the group is started anew once" if once else "nothing is restarted"
    return f"two answers in a row to one fixed question made no sense: it counts as not serving, and {follows}"


RULES: dict[str, Rule] = {
    "node-unknown": Rule(1, "nothing is started or stopped while a node of the group cannot be read"),
    "node-lost": Rule(1, "a node declared lost takes part again once it can be read, and what runs there goes first"),
    "node-stopping": Rule(6, "a rank that ends with its node's shutdown has not failed"),
    "teardown": Rule(2, "the head goes first, then the workers, then all is verified gone"),
    "failed": Rule(6, "the kind of failure decides whether and when it is tried again"),
    "widow-seen": Rule(6, "how the head ended says more than a worker without it, so it is looked at once more"),
    "stale-rank": Rule(4, "ranks of an earlier one go, and what they say counts for nothing"),
    "unborn": Rule(2, "a rank that was created and never started is removed before it is started again"),
    "stray-holder": Rule(3, "`remove_strays` allows to end it, and neither a container nor a unit brings it back"),
    "memory-wait": Rule(6, _measured_again),
    "memory-returns": Rule(2, "what the last generation had is given back before the next one measures its node"),
    "memory-unknown": Rule(1, "nothing starts while the memory cannot be read: unknown is not enough"),
    "port-wait": Rule(2, "ports are verified free before anything starts"),
    "port-unknown": Rule(1, "nothing starts while a port cannot be checked: unknown is not free either"),
    "backoff": Rule(6, "the pause doubles with every failure in a row"),
    "retry": Rule(6, "the pause is over"),
    "rebooted": Rule(6, "a reboot is no failure; the group starts anew"),
    "adopted": Rule(5, "sparkd looks before it acts; what serves goes on"),
    "stopped": Rule(8, "a person wants it stopped, and nothing undoes that"),
    "stopping": Rule(8, "a person wants it stopped"),
    "paused": Rule(8, "a person wants it observed only"),
    "intent-unread": Rule(
        8, "what a person may have wanted is never guessed: nothing is started or stopped until it is said"
    ),
    "begin": Rule(4, "its number is written down before anything of it starts"),
    "warmup": Rule(None, "ready is a correct completion, streamed to its end"),
    "loading": Rule(10, "a start has its own time, and until that is up nothing counts as a failure"),
    "serving": Rule(None, "serving means that every rank runs, and tokens move or a canary answers"),
    "not-answering": Rule(None, "two canaries in a row failed: it is said at once, whatever may be done about it"),
    "nonsense": Rule(None, _on_nonsense),
    "suspect": Rule(None, "each kind of evidence has its own clock, and none has run out yet"),
    "held-node": Rule(1, "nothing is done on its peers; it goes on once the node can be read, or the engine answers"),
    "maintenance": Rule(
        8, "a person has planned work on that node; it goes on after its boot, or when the time is over"
    ),
    "draining": Rule(8, "a person has planned work on that node; what is being answered is finished first"),
    "healed": Rule(7, "the fact is right again"),
    "budget-pause": Rule(6, _paused_by_budget),
    "held-budget": Rule(6, _held_by_budget),
}

NOT_YET, HELD = Rule(7, _not_yet), Rule(7, _held)
"""The rule for every reason with this beginning and without a rule of its own."""


def rule(reason: str, policy: Policy) -> str | None:
    """The rule behind a reason code, or None where the sentence says it all. `policy` is the deployment's."""
    if reason in RULES:
        return RULES[reason].words(policy)
    if reason.startswith("not-yet"):
        return NOT_YET.words(policy)
    return HELD.words(policy) if reason.startswith("held") else None
