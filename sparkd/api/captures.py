"""The folder with what was saved of a deployment's failed generations -> a list of them, one of their logs, its inspects.

The files are the daemon's alone (0700): people see them through the API. `sparkd.act.capture` writes them, already
without secrets. Everything here reads the disk and blocks.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sparkd.api.service import NotFound
from sparkd.node import regular

_FOLDER = re.compile(r"(\d{8}T\d{6}Z)-g(\d+)-(.+)")
_LOG = re.compile(r"rank(\d+)-(.+)\.log")
_INSPECT = ".inspect.json"
MOST_BYTES = 16 << 20
"""For an inspect: Docker's have some 10 KiB, and systemd's too."""
MOST_CHARS = 1 << 20
"""For a line: as much as a line of a rank's log can hold."""


class Capture(NamedTuple):
    folder: Path
    at: datetime
    generation: int
    reason: str

    def logs(self) -> Iterator[tuple[int, str, Path]]:
        """(rank, node, file), by rank."""
        found = ((_LOG.fullmatch(file.name), file) for file in self.folder.iterdir())
        yield from sorted((int(name[1]), name[2], file) for name, file in found if name)

    def as_json(self) -> dict[str, Any]:
        ranks = [{"rank": rank, "node": node, "log_bytes": file.stat().st_size} for rank, node, file in self.logs()]
        known = {"generation": self.generation, "at": self.at.isoformat().replace("+00:00", "Z")}
        return {**known, "reason": self.reason, "folder": str(self.folder), "ranks": ranks}


def listing(folder: Path) -> dict[str, Any]:
    """All that was saved, the latest last; an empty list where nothing was."""
    return {"schema": 1, "folder": str(folder), "captures": [one.as_json() for one in _captures(folder)]}


def lines(folder: Path, generation: int, tail: int) -> list[dict[str, Any]]:
    """The last `tail` lines of that generation's ranks, interleaved by time. Raises NotFound."""
    capture = _of(folder, generation)
    logs = [_lines(rank, node, file, capture.at) for rank, node, file in capture.logs()]
    return list(deque(heapq.merge(*logs, key=lambda line: str(line["at"])), maxlen=tail))


def inspects(folder: Path, generation: int) -> dict[str, Any]:
    """What Docker knew of that generation's ranks when they were saved. Raises NotFound."""
    capture = _of(folder, generation)
    ranks = []
    for rank, node, log in capture.logs():
        file = log.with_suffix(_INSPECT)
        ranks.append({"rank": rank, "node": node, "inspect": _inspect(file)})
    return {"schema": 1, **capture.as_json(), "ranks": ranks}


def _captures(folder: Path) -> list[Capture]:
    if not folder.is_dir():
        return []
    found = ((_FOLDER.fullmatch(one.name), one) for one in folder.iterdir())
    known = (Capture(one, datetime.fromisoformat(name[1]), int(name[2]), name[3]) for name, one in found if name)
    return sorted(known, key=lambda capture: capture.at)


def _of(folder: Path, generation: int) -> Capture:
    """The last one of that generation: it may have been saved more than once."""
    captures = _captures(folder)
    mine = [one for one in captures if one.generation == generation]
    if not mine:
        known = ", ".join(str(number) for number in sorted({one.generation for one in captures}))
        fix = f"there is: {known}" if known else "logs are saved when a group fails; see what runs: sparkd ctl logs"
        raise NotFound(f"nothing was saved of generation {generation}", fix)
    return mine[-1]


def _inspect(file: Path) -> Any:
    """None where it was not saved, or is no longer what was saved."""
    try:
        return json.loads(regular.read(str(file), MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def _lines(rank: int, node: str, file: Path, saved: datetime) -> Iterator[dict[str, Any]]:
    """A line is `TIME STREAM TEXT`."""
    about = {"schema": 1, "rank": rank, "node": node}
    try:
        opened = regular.opened(str(file))
    except OSError as error:
        at = saved.isoformat().replace("+00:00", "Z")
        yield {**about, "at": at, "stream": "sparkd", "text": f"this log cannot be read: {error.strerror}"}
        return
    with open(opened, encoding="utf-8", errors="replace") as log:
        for line in iter(lambda: log.readline(MOST_CHARS), ""):
            at, _, rest = line.rstrip("\n").partition(" ")
            stream, _, text = rest.partition(" ")
            yield {**about, "at": at, "stream": stream, "text": text}
