"""Turns events into log lines of vLLM's format: `(Worker_TP0 pid=33) INFO 11-27 21:25:48 [file.py:12] text`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any


def emit(fd: int, text: str) -> None:
    """Writes whole lines in one system call, so lines of several processes never mix."""
    try:
        os.write(fd, text.encode() + b"\n")
    except OSError:
        return  # nobody reads the log any more: an engine goes on serving


def bare(text: str) -> None:
    """A line without prefix, as uvicorn's server messages and plain tracebacks are: on stderr."""
    emit(2, text)


class Log:
    """The log of one process; `role` is the name in the prefix and changes with the process's title."""

    def __init__(self, role: str) -> None:
        self.role = role

    def line(self, level: str, where: str, text: str) -> None:
        """One message; each of its lines gets the prefix."""
        prefix = f"({self.role} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{where}] "
        emit(1, "\n".join(prefix + part for part in text.split("\n")))

    def table(self, lines: Iterable[tuple[str, str, str]], **fields: Any) -> None:
        """The lines of one table of texts.py, filled in."""
        for level, where, text in lines:
            self.line(level, where, text.format(**fields))

    def failure(self, where: str, title: str, frames: Iterable[str], error: str) -> None:
        """An exception as vLLM logs one: title, traceback and error under one prefix."""
        self.line("ERROR", where, "\n".join([title, *traceback(frames), error]))


def traceback(frames: Iterable[str]) -> list[str]:
    """A shortened traceback; each frame is `file, line N, in name: source`."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        place, _, source = frame.partition(": ")
        path, _, rest = place.partition(", ")
        lines += [f'  File "{path}", {rest}', f"    {source}"]
    return lines
