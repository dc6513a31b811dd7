"""Turns requests into steps: who runs, who waits, which tokens each step yields. No clock and no socket."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass
class Request:
    """One completion: it ends with `reason` once `done` tokens of `target` are made."""

    id: str
    prompt: int
    target: int
    reason: str
    done: int = 0


class Schedule:
    """The queue of one engine core: at most `limit` requests run, the others wait in order of arrival."""

    def __init__(self, limit: int, capacity: int, draft_tokens: int = 0) -> None:
        self.limit = limit
        self.capacity = capacity
        self.draft_tokens = draft_tokens
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def abort(self, request_id: str) -> None:
        self.running = [request for request in self.running if request.id != request_id]
        self.waiting = deque(request for request in self.waiting if request.id != request_id)

    def plan(self) -> dict[str, Any]:
        """Admits what there is room for and describes the next step for the workers.

        `new` holds prompt lengths, `rows` the tokens of every running request, `more` whether another step will follow.
        """
        new: list[Request] = []
        while self.waiting and len(self.running) < self.limit:
            request = self.waiting.popleft()
            self.running.append(request)
            new.append(request)
        unfinished = any(request.done + self._yield(request) < request.target for request in self.running)
        return {
            "new": [request.prompt for request in new],
            "rows": [request.prompt + request.done for request in self.running],
            "more": unfinished or bool(self.waiting),
        }

    def finish(self) -> dict[str, Any]:
        """The outcome of the planned step: tokens per request, and the statistics that travel with them."""
        outputs: list[tuple[str, int, str | None]] = []
        prompts = sum(request.prompt for request in self.running if request.done == 0)
        drafts = [0, 0, 0]  # as vLLM counts them: drafts, draft tokens, accepted tokens
        for request in self.running:
            made = self._yield(request)
            request.done += made
            outputs.append((request.id, made, request.reason if request.done >= request.target else None))
            if self.draft_tokens:
                drafts = [drafts[0] + 1, drafts[1] + self.draft_tokens, drafts[2] + made - 1]
        self.running = [request for request in self.running if request.done < request.target]
        used = sum(request.prompt + request.done for request in self.running)
        return {
            "outputs": outputs,
            "running": len(self.running),
            "waiting": len(self.waiting),
            "kv": min(1.0, used / self.capacity),
            "prompt": prompts,
            "generated": sum(made for _, made, _ in outputs),
            "drafts": drafts,
        }

    def _yield(self, request: Request) -> int:
        """Tokens of one request in one step: with speculative decoding half the drafts, rounded up, are accepted."""
        return min(1 + (self.draft_tokens + 1) // 2, request.target - request.done)
