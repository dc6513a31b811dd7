"""A real completion, streamed to its end: the only proof that an engine answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd import http
from sparkd.act.hands import ActionFailed, Hands
from sparkd.base import clock
from sparkd.engines import ENGINES, base_url
from sparkd.model.action import AskSanity, SendCanary, WarmUp
from sparkd.model.config import Deployment
from sparkd.model.failure_code import FailureCode
from sparkd.model.rate import rate
from sparkd.model.sanity import CONTINUED, LONGEST, QUESTION, TOKENS, Said
from sparkd.model.snapshot import Canary

CANARY_PROMPT = "ping"

MEASURED_TOKENS = (64, 256, 1024)
"""Of a request that is sent for its rate: more only where the answer was there before a rate could be told."""


async def warm_up(hands: Hands, action: WarmUp) -> Canary:
    wanted = hands.deployment.warmup
    return await _complete(hands, action.generation, wanted.prompt, wanted.max_tokens, action.timeout_s, wanted.expect)


async def canary(hands: Hands, action: SendCanary) -> Canary:
    return await _complete(hands, action.generation, CANARY_PROMPT, 1, action.timeout_s)


async def ask_sanity(hands: Hands, action: AskSanity) -> Canary:
    """The fixed question, with its answer: a canary of some more tokens."""
    question = CONTINUED if hands.deployment.warmup.api == "completions" else QUESTION
    return await _complete(hands, action.generation, question, TOKENS, action.timeout_s, said=True)


async def measure(hands: Hands, generation: int, timeout_s: float) -> Canary:
    """A request for its rate alone: as long an answer as a rate takes, whatever the model has to say."""
    prompt = hands.deployment.warmup.prompt
    for tokens in MEASURED_TOKENS:
        done = await _complete(hands, generation, prompt, tokens, timeout_s, whole=True)
        if not done.ok or done.tokens < tokens or done.tokens_per_second is not None:
            break
    return done


async def _complete(
    hands: Hands,
    generation: int,
    prompt: str,
    max_tokens: int,
    timeout_s: float,
    expect: Mapping[str, Any] | None = None,
    whole: bool = False,
    said: bool = False,
) -> Canary:
    """A completion that fails or is late is a result, not an error: the decision weighs it."""
    path, body = ENGINES[hands.deployment.engine].completion(hands.deployment, prompt, max_tokens, whole)
    sent_at = clock.now()
    token = await key(hands)
    done = await http.complete(base_url(hands.deployment, hands.cluster.nodes), path, body, timeout_s, expect, token)
    found = rate(done.tokens, done.first_token_s, done.seconds) if done.ok else None
    refused = done.why.startswith(http.UNAUTHORIZED)
    return Canary(
        generation,
        sent_at,
        clock.now(),
        done.ok,
        why=_refused(hands.deployment) if refused else done.why,
        tokens=done.tokens,
        first_token_s=done.first_token_s,
        tokens_per_second=found,
        kind="key" if refused else done.kind,
        said=Said(done.text[:LONGEST], done.reasoning[:LONGEST], done.cut) if said else None,
    )


async def key(hands: Hands) -> str | None:
    """What the engine was started to want, from us as from everybody; None where it wants nothing. Raises ActionFailed."""
    variable = ENGINES[hands.deployment.engine].variables.key
    file = hands.deployment.secrets.get(variable or "")
    if variable is None or file is None:
        return None
    found = await hands.secret(variable)
    if not (found.isascii() and found.isprintable()) or found != found.strip():
        why = "a request can hold printable ASCII alone, and no blank at its ends"
        raise ActionFailed(f"secret {variable} in {file} is no key: {why}", FailureCode.SECRET)
    return found


def _refused(deployment: Deployment) -> str:
    file = deployment.secrets.get(ENGINES[deployment.engine].variables.key or "")
    if file is not None:
        return f"the engine refuses the key in {file} ({http.UNAUTHORIZED}): it was started with another one"
    fix = ENGINES[deployment.engine].argument_fix("api-key")
    return f"the engine wants a key ({http.UNAUTHORIZED}): {fix}"
