"""Reason codes -> the rule behind them, in words a person can look up in docs/interfaces.md."""

from __future__ import annotations

RULES: dict[str, str] = {
    "node-unknown": "unknown is not dead: nothing is started or stopped while a node of the group cannot be read (rule 1)",
    "node-lost": "a node declared lost takes part again only when it can be read; what runs there goes first (rule 1)",
    "node-stopping": "a rank that ends with its node's shutdown has not failed (rule 6)",
    "teardown": "one group, one fate: head first, then workers, then verified gone (rule 2)",
    "failed": "the failure's class decides when it is tried again (rule 6)",
    "stale-rank": "evidence belongs to a generation; ranks of an earlier one go (rule 4)",
    "unborn": "a rank that was created and never started is removed before it is started again (rule 2)",
    "port-wait": "ports are verified free before anything starts (rule 2)",
    "port-unknown": "unknown is not free: nothing starts while a port cannot be checked (rule 1)",
    "backoff": "the pause doubles with every failure in a row (rule 6)",
    "retry": "the pause is over (rule 6)",
    "rebooted": "a reboot is no failure; the group starts anew (rule 6)",
    "adopted": "sparkd looks before it acts; what serves goes on (rule 5)",
    "stopped": "a person wants it stopped, and nothing undoes that (rule 8)",
    "stopping": "a person wants it stopped (rule 8)",
    "paused": "a person wants it observed only (rule 8)",
    "begin": "a generation is numbered before anything of it starts (rule 4)",
    "warmup": "ready is a correct completion, streamed to its end",
    "loading": "slow is not dead: start-up has its own budget (rule 10)",
    "serving": "every rank runs, and tokens move or a canary answers",
    "suspect": "each kind of evidence has its own clock; none has run out yet",
    "healed": "a hold that names a fact heals itself when the fact passes (rule 7)",
    "held-budget": "sparkd gives up visibly when the restart budget is used up (rule 6)",
}


def rule(reason: str) -> str | None:
    """The rule behind a reason code, or None where the sentence says it all."""
    if reason.startswith("not-yet"):
        return "for ten minutes after a boot, missing things are not yet there (rule 7)"
    if reason.startswith("held") and reason not in RULES:
        return "a hold names its fact and heals itself when the fact passes (rule 7)"
    return RULES.get(reason)
