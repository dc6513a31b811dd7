"""The one error that carries a machine-readable code to the client."""

from __future__ import annotations


class Refusal(Exception):
    """`error` is one sentence for people.

    `code` is owner | version | refused | not_found | failed | usage | timeout, and for probes also unknown.
    """

    def __init__(self, code: str, error: str) -> None:
        self.code, self.error = code, error
        super().__init__(error)
