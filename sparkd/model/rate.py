"""When tokens in some seconds are a rate: 4 tokens in one burst once read as 37,841 tok/s."""

from __future__ import annotations

MIN_TOKENS, MIN_S = 32, 1.0
"""For one answer. Fewer tokens come in the chunks of a network, and a shorter time is that of a scheduler."""


def rate(tokens: int, first_token_s: float | None, seconds: float) -> float | None:
    """Tokens per second of an answer: `tokens` in `seconds`, the first of them after `first_token_s`. None where the answer
    is too short to tell."""
    decode_s = seconds - (first_token_s or 0.0)
    return (tokens - 1) / decode_s if tokens >= MIN_TOKENS and decode_s >= MIN_S else None
