"""An invocation of a unit -> its lines in systemd's journal, newest or next ones first, never more than is bounded here."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Sequence

from sparkd.node.refusal import Refusal

MAX_LINES, MAX_CHARS, MAX_LINE = 10000, 1 << 20, 1 << 16
MAX_ENTRY_BYTES = 8 * MAX_LINE
"""As journalctl prints it: a byte that is not printable takes five. A process may log a message of hundreds of megabytes."""
CURSOR = re.compile(r"[A-Za-z0-9=;]{1,500}")
JOURNALCTL = (
    *("journalctl", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE,_PID"),
    "--all",  # else a line of more than 4096 bytes comes as null
)
OOM_KILL = re.compile(r"oom_kill (\d+)")


class Line(NamedTuple):
    """`at` is Unix time in seconds; `stream` is `systemd` for what systemd says of the rank, else `stdout`."""

    at: float
    stream: str
    text: str
    cursor: str


def last(invocation: str, lines: int, since: Optional[float], deadline_s: float) -> List[Line]:
    """The last lines, oldest first."""
    chosen = ["--reverse", f"--lines={min(lines, MAX_LINES)}"]
    if since is not None:
        chosen.append(f"--since=@{since:.6f}")
    return _read(chosen, invocation, deadline_s)[::-1]


def first(invocation: str, lines: int, deadline_s: float) -> List[Line]:
    """The first lines that are left, oldest first. Only newer journalctl count from there; so it is ended at the last."""
    return _read([], invocation, deadline_s, lines)


def following(invocation: str, cursor: str, deadline_s: float) -> List[Line]:
    """What was written after the line of this cursor."""
    return _read([f"--after-cursor={cursor}"], invocation, deadline_s)


def oom_kills(invocation: str, deadline_s: float) -> int:
    """What the kernel counted for the rank's control group, printed when it ended (see `start_rank`)."""
    said = (OOM_KILL.fullmatch(line.text) for line in last(invocation, 30, None, deadline_s))
    return max((int(match.group(1)) for match in said if match), default=0)


def _read(chosen: Sequence[str], invocation: str, deadline_s: float, most: int = MAX_LINES) -> List[Line]:
    """Read as it comes: journalctl is ended as soon as there is enough."""
    matches = [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", "_PID=1", f"INVOCATION_ID={invocation}"]
    try:
        child = subprocess.Popen(
            [*JOURNALCTL, *chosen, *matches],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise Refusal("failed", "there is no journalctl on this node") from None
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    timer = threading.Timer(deadline_s, end)
    timer.start()
    try:
        found = list(_bounded(child, most))
    finally:
        timer.cancel()
        child.kill()
        child.communicate()
    if late.is_set():
        raise Refusal("timeout", f"journalctl did not end in {deadline_s:g} s")
    return found


def _bounded(child: subprocess.Popen[bytes], most: int) -> Iterator[Line]:
    chars = 0
    assert child.stdout is not None
    for number, raw in enumerate(_entries(child.stdout), 1):
        if not raw.endswith(b"\n"):
            return  # half a line: journalctl was killed at the deadline, which the caller says
        line = _line(raw)
        chars += len(line.text)
        if chars > MAX_CHARS:
            return
        yield line
        if number == most:
            return


def _entries(printed: IO[bytes]) -> Iterator[bytes]:
    """Lines; those that are too long are left out, without ever being held."""
    whole = True
    for part in iter(lambda: printed.readline(MAX_ENTRY_BYTES), b""):
        ends = part.endswith(b"\n")
        if whole and (ends or len(part) < MAX_ENTRY_BYTES):
            yield part
        whole = ends


def _line(raw: bytes) -> Line:
    entry = json.loads(raw)
    stream = "systemd" if entry.get("_PID") == "1" else "stdout"
    at = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
    return Line(at, stream, _text(entry.get("MESSAGE")), entry["__CURSOR"])


def _text(message: Any) -> str:
    """Bytes come as a list of numbers when they are not all printable, as in the colours of an engine's log."""
    if isinstance(message, list):
        message = bytes(byte for byte in message if isinstance(byte, int)).decode("utf-8", "replace")
    return str(message or "")[:MAX_LINE]
