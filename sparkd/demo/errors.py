"""What can go wrong with the demo itself, as one sentence and its fix."""

from __future__ import annotations


class DemoError(Exception):
    """Ends the demo with exit code 1."""

    def __init__(self, text: str, fix: str = "") -> None:
        self.text, self.fix = text, fix
        super().__init__(text)
