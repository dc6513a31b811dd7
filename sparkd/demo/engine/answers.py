"""Turns a parsed request into vLLM's answers: bodies, stream chunks, errors. The content is deterministic."""

from __future__ import annotations

import json
import re
import time
import zlib
from dataclasses import dataclass
from typing import Any

from .options import Options

WORDS = ("two", "small", "machines", "share", "one", "large", "model", "and", "keep", "answering", "every", "question")
# What a warm-up or a health check asks an instructed model, and what such a model answers.
REPEAT = re.compile(r"Repeat exactly: ([^.]+)\. Then name the capital of (France|Spain)\.")
CAPITALS = {"France": "Paris", "Spain": "Madrid"}
# One token repeated, as an engine with broken weights or a broken kernel makes it.
BROKEN = "!"
# Without max_tokens an answer ends by itself after this many tokens.
NATURAL_END = 64
DEFAULT_MAX_TOKENS = 16
# With a reasoning parser, at most this many tokens (and half of the answer) are reasoning.
REASONING_TOKENS = 8
BYTES_PER_TOKEN = 4
TEMPLATE_TOKENS = 4


class Refused(Exception):
    """The request is answered with an error: status, type and message as vLLM writes them."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, kind, param, status)


def compact(value: Any) -> str:
    """JSON without spaces, as pydantic writes it."""
    return json.dumps(value, separators=(",", ":"))


def error_body(message: str, kind: str, param: str | None, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True)
class Ask:
    """A valid request: what to make and how to wrap it."""

    chat: bool
    model: str
    prompt_tokens: int
    target: int
    reason: str
    stream: bool
    usage: bool
    reasoning_tokens: int
    seed: int
    words: tuple[str, ...] = ()
    """What is answered instead of the usual words; from its end it begins again."""

    def text(self, start: int, count: int) -> str:
        """The words of `count` tokens from position `start`."""
        if self.words:
            return "".join(self.words[position % len(self.words)] for position in range(start, start + count))
        return "".join(" " + WORDS[(self.seed + position) % len(WORDS)] for position in range(start, start + count))


def read(body: dict[str, Any], chat: bool, options: Options, nonsense: Any = None) -> Ask:
    """Checks a request as vLLM does; raises Refused. `nonsense`: what the control file wants in the place of every answer."""
    model = body.get("model") or options.names[0]
    if model not in options.names:
        raise Refused(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    prompt = prompt_tokens(body, chat)
    limit = options.max_model_len
    if prompt >= limit:
        raise Refused(
            400,
            "BadRequestError",
            f"This model's maximum context length is {limit} tokens. However, your request has {prompt} input tokens. "
            "Please reduce the length of the input messages.",
            "input_tokens",
        )
    asked = body.get("max_completion_tokens")
    if asked is None:
        asked = body.get("max_tokens", None if chat else DEFAULT_MAX_TOKENS)
    target, reason = length(asked, prompt, limit)
    words = garbage(nonsense) if nonsense else repeated(body, chat)
    if words and not nonsense and not body.get("ignore_eos") and len(words) <= target:
        target, reason = len(words), "stop"
    thinks = options.reasoning and chat and (body.get("chat_template_kwargs") or {}).get("enable_thinking", True)
    return Ask(
        chat=chat,
        model=str(model),
        prompt_tokens=prompt,
        target=target,
        reason=reason,
        stream=bool(body.get("stream")),
        usage=bool((body.get("stream_options") or {}).get("include_usage")),
        reasoning_tokens=min(REASONING_TOKENS, (target + 1) // 2) if thinks else 0,
        seed=zlib.crc32(repr(body.get("messages") if chat else body.get("prompt")).encode()),
        words=words,
    )


def garbage(wanted: Any) -> tuple[str, ...]:
    """One token for ever, or the words of a text."""
    return tuple(f" {word}" for word in wanted.split()) if isinstance(wanted, str) else (BROKEN,)


def repeated(body: dict[str, Any], chat: bool) -> tuple[str, ...]:
    """The words that the last question wants repeated, and the fact it asks for; none for any other question."""
    asked = [str(message.get("content")) for message in body["messages"]] if chat else [str(body.get("prompt"))]
    found = REPEAT.findall(asked[-1])
    return tuple(f" {word}" for word in (*found[-1][0].split(), CAPITALS[found[-1][1]])) if found else ()


def length(asked: Any, prompt: int, limit: int) -> tuple[int, str]:
    """How many tokens the answer has and why it ends."""
    if asked is None:
        room = limit - prompt
        return (NATURAL_END, "stop") if room > NATURAL_END else (room, "length")
    if not isinstance(asked, int) or asked < 1:
        raise Refused(400, "BadRequestError", f"max_tokens must be at least 1, got {asked}.", "max_tokens")
    if asked > limit - prompt:
        raise Refused(
            400,
            "BadRequestError",
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{limit} tokens and your request has {prompt} input tokens ({asked} > {limit} - {prompt}).",
            "max_tokens",
        )
    return asked, "length"


def prompt_tokens(body: dict[str, Any], chat: bool) -> int:
    """Tokens of the prompt: ids are counted, text counts a token for four bytes. Raises Refused without a prompt."""
    content = body.get("messages") if chat else body.get("prompt")
    if not content:
        raise Refused(400, "BadRequestError", f"Field required: {'messages' if chat else 'prompt'}")
    if chat:
        if not isinstance(content, list) or not all(isinstance(message, dict) for message in content):
            raise Refused(400, "BadRequestError", "messages must be a list of objects", "messages")
        return sum(tokens_of(message.get("content") or "") + TEMPLATE_TOKENS for message in content)
    return tokens_of(content)


def tokens_of(content: Any) -> int:
    if isinstance(content, str):
        return max(1, -(-len(content.encode()) // BYTES_PER_TOKEN))
    if isinstance(content, list):
        return sum(1 if isinstance(part, int) else tokens_of(part) for part in content)
    if isinstance(content, dict):
        return tokens_of(content.get("text") or "")
    raise Refused(400, "BadRequestError", "unsupported prompt")


class Answer:
    """The JSON of one answer, built chunk by chunk."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self.ask = ask
        self.made = 0
        self._id = request_id
        self._created = int(time.time())

    def opening(self) -> list[dict[str, Any]]:
        """What a stream starts with before the first token: a chat names the role."""
        return [self._chunk({"role": "assistant", "content": ""}, None)] if self.ask.chat else []

    def chunk(self, count: int, reason: str | None) -> dict[str, Any]:
        """The stream chunk of the next `count` tokens."""
        thought, text = self._parts(self.made, count)
        self.made += count
        if not self.ask.chat:
            return self._chunk(text, reason)
        delta = {**({"reasoning": thought} if thought else {}), **({"content": text} if text else {})}
        return self._chunk(delta, reason)

    def usage(self) -> dict[str, int]:
        total = self.ask.prompt_tokens + self.made
        return {"prompt_tokens": self.ask.prompt_tokens, "total_tokens": total, "completion_tokens": self.made}

    def closing(self) -> list[dict[str, Any]]:
        """The last chunk before [DONE], when usage was asked for."""
        return [{**self._head(streaming=True), "choices": [], "usage": self.usage()}] if self.ask.usage else []

    def whole(self, reason: str) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        thought, text = self._parts(0, self.made)
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason, "stop_reason": None}
        if self.ask.chat:
            message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None, "tool_calls": []}
            choice["message"] = {**message, "reasoning": thought or None}
        else:
            choice["text"] = text
        return {**self._head(streaming=False), "choices": [choice], "usage": self.usage()}

    def _parts(self, start: int, count: int) -> tuple[str, str]:
        """Reasoning and content among `count` tokens from `start`."""
        border = min(max(self.ask.reasoning_tokens, start), start + count)
        return self.ask.text(start, border - start), self.ask.text(border, start + count - border)

    def _head(self, streaming: bool) -> dict[str, Any]:
        kind = "text_completion" if not self.ask.chat else "chat.completion.chunk" if streaming else "chat.completion"
        return {"id": self._id, "object": kind, "created": self._created, "model": self.ask.model}

    def _chunk(self, content: Any, reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta" if self.ask.chat else "text": content, "logprobs": None, "finish_reason": reason}
        return {**self._head(streaming=True), "choices": [{**choice, "stop_reason": None}]}
