"""A real completion, streamed to its end: the only proof that an engine answers."""

from __future__ import annotations

from sparkd import clock, http
from sparkd.act.hands import Hands
from sparkd.engines import ENGINES, base_url
from sparkd.model.action import SendCanary, WarmUp
from sparkd.model.snapshot import Canary

CANARY_PROMPT = "ping"
API_KEY = "VLLM_API_KEY"
"""With this secret the engine wants a bearer token, from us as from everybody."""


async def warm_up(hands: Hands, action: WarmUp) -> Canary:
    wanted = hands.deployment.warmup
    return await _complete(hands, action.generation, wanted.prompt, wanted.max_tokens, action.timeout_s)


async def canary(hands: Hands, action: SendCanary) -> Canary:
    return await _complete(hands, action.generation, CANARY_PROMPT, 1, action.timeout_s)


async def _complete(hands: Hands, generation: int, prompt: str, max_tokens: int, timeout_s: float) -> Canary:
    """A completion that fails or is late is a result, not an error: the decision weighs it."""
    path, body = ENGINES[hands.deployment.engine].completion(hands.deployment, prompt, max_tokens)
    expect = hands.deployment.warmup.expect if max_tokens > 1 else {}
    sent_at = clock.now()
    token = await hands.secret(API_KEY) if API_KEY in hands.deployment.secrets else None
    done = await http.complete(base_url(hands.deployment, hands.cluster.nodes), path, body, timeout_s, expect, token)
    decode_s = done.seconds - (done.first_token_s or 0.0)
    rate = (done.tokens - 1) / decode_s if done.ok and done.tokens > 1 and decode_s > 0 else None
    return Canary(generation, sent_at, clock.now(), done.ok, done.why, done.tokens, done.first_token_s, rate)
