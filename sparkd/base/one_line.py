"""What somebody else said -> one line that can be shown, logged and written down."""

from __future__ import annotations

MAX_CLAUSE = 300


def clause(said: object) -> str:
    """What the other side said, as one line of at most 300 printable characters.

    It ends in a status, a log and on somebody's terminal: no escape sequence, no half character (which no disk and no
    socket takes) and no megabytes may come along.
    """
    text = str(said)[: 4 * MAX_CLAUSE]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_CLAUSE else f"{line[: MAX_CLAUSE - 3]}..."


def escaped(text: str) -> str:
    """All of it on one line, in characters that every terminal, log and socket takes; what nobody sees as an escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
