"""Text of another program -> one line that can be shown, logged and stored."""

from __future__ import annotations

MAX_CLAUSE = 300


def clause(said: object) -> str:
    """What another program said, as one line of at most 300 printable characters.

    The line gets into a status, a log and a terminal. So it has no escape sequence, no half character (no disk and no
    socket takes one) and no megabytes.
    """
    text = str(said)[: 4 * MAX_CLAUSE]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_CLAUSE else f"{line[: MAX_CLAUSE - 3]}..."


def escaped(text: str) -> str:
    """All of it on one line, in characters that every terminal, log and socket takes; invisible ones become escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
