"""A streamed completion of an engine, chunk by chunk -> whether it is an answer, with its text, tokens and times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from sparkd.base.one_line import clause

MAX_TOKENS = 1 << 31

Failing = Literal["", "late", "error"]
"""How a completion failed: for want of time alone, or by what was answered; nothing where the connection failed."""


@dataclass(frozen=True, slots=True)
class Completion:
    """How one completion ended. `ok` only when it was streamed to its end without an error and met what was expected.

    `tokens` is the engine's own count, or that of chunks with text where it gives none. Times: seconds since it was sent.
    """

    ok: bool
    why: str = ""
    text: str = ""
    tokens: int = 0
    first_token_s: float | None = None
    seconds: float = 0.0
    reasoning: str = ""
    kind: Failing = ""
    cut: bool = False
    """It ended because all the tokens that were asked for were used."""


@dataclass(slots=True)
class Answer:
    """What a stream has brought so far; every chunk may be anything. `started` is anyio's clock."""

    started: float
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    chunks: int = 0
    counted: int | None = None
    first: float | None = None
    cut: bool = False

    def take(self, data: str) -> str:
        """Add one chunk; returns why the stream has failed, or nothing."""
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return f"a chunk is not JSON: {data[:80]!r}"
        if not isinstance(chunk, dict):
            return f"a chunk is not an object: {data[:80]!r}"
        if chunk.get("error") or chunk.get("object") == "error":
            return f"error chunk under status 200, after {self.tokens} tokens: {message(data)}"
        count = _mapping(chunk.get("usage")).get("completion_tokens")
        # Anything can stand there, a number of 400 digits too, and a rate is made of it.
        self.counted = count if type(count) is int and 0 <= count < MAX_TOKENS else self.counted
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            self._choice(_mapping(choices[0]))
        return ""

    def _choice(self, choice: Mapping[str, Any]) -> None:
        delta = _mapping(choice.get("delta"))
        text = _string(delta.get("content")) + _string(choice.get("text"))
        # `reasoning_content` became `reasoning` in newer vLLM.
        reasoning = _string(delta.get("reasoning")) or _string(delta.get("reasoning_content"))
        self.text.append(text)
        self.reasoning.append(reasoning)
        self.chunks += bool(text or reasoning)
        self.cut = self.cut or choice.get("finish_reason") == "length"
        if self.first is None and (text or reasoning or choice.get("finish_reason")):
            self.first = anyio.current_time() - self.started

    @property
    def tokens(self) -> int:
        return self.chunks if self.counted is None else self.counted

    def judge(self, expect: Mapping[str, Any]) -> str:
        """Why a stream that came to its end is no answer, or nothing.

        An empty text with a token is one: a lone token may be half a character, or the mark that opens the reasoning.
        """
        if not self.tokens:
            return "an empty answer"
        if expect.get("reasoning") is True and not any(self.reasoning):
            return "the answer has no reasoning text"
        wanted = expect.get("contains")
        if isinstance(wanted, str) and wanted not in "".join(self.text):
            return f"the answer does not contain {wanted!r}"
        return ""

    def completion(self, why: str, kind: Failing = "") -> Completion:
        """The end of it; without a `why` it is a good one."""
        return Completion(
            ok=not why,
            why=clause(why),
            text="".join(self.text),
            tokens=self.tokens,
            first_token_s=self.first,
            seconds=anyio.current_time() - self.started,
            reasoning="".join(self.reasoning),
            kind=kind,
            cut=self.cut,
        )


def message(body: str) -> str:
    """The message of an error body, or how the body begins."""
    try:
        parsed = _mapping(json.loads(body))
    except (ValueError, RecursionError):
        parsed = {}
    found = _mapping(parsed.get("error")).get("message") or parsed.get("message") or parsed.get("error")
    return _string(found) or body.strip() or "no body"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
