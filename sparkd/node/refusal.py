"""The one error that carries a machine-readable code to the client."""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "owner",
    "version",
    "refused",
    "not_found",
    "failed",
    "usage",
    "timeout",
    "unknown",
    "path-missing",
    "user-missing",
    "not-executable",
    "limits",
    "name-taken",
    "busy",
    "ended",
]
"""Every one is a member of `FailureCode` on the head, which judges it: this program knows only the standard library."""


class Refusal(Exception):
    """`error` is one sentence for people."""

    def __init__(self, code: Code, error: str) -> None:
        self.code, self.error = code, error
        super().__init__(error)
