"""Turns the control file named by SPARKD_SIM_FAULTS into the faults this rank has to show now."""

from __future__ import annotations

import json
import os
from typing import Any


class Faults:
    """Reads the file again only when it changed, so asking at every step costs one stat."""

    def __init__(self, source: str, rank: int) -> None:
        self._source = source
        self._rank = rank
        self._stamp: tuple[int, int, int] | None = None
        self._values: dict[str, Any] = self._mine(source) if source.startswith("{") else {}
        self.watched = bool(source) and not source.startswith("{")

    def now(self) -> dict[str, Any]:
        """The faults in force; empty without a file, and while it is half written."""
        if self.watched:
            self._refresh()
        return self._values

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._source)
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._stamp:
                return
            with open(self._source, encoding="utf-8") as file:
                self._values = self._mine(file.read())
            self._stamp = stamp
        except OSError:
            self._stamp, self._values = None, {}  # no file: no faults

    def _mine(self, text: str) -> dict[str, Any]:
        try:
            values = json.loads(text)
        except ValueError:
            return {}  # a file being written; the next look sees the rest
        if not isinstance(values, dict) or values.get("rank", self._rank) != self._rank:
            return {}
        return values
