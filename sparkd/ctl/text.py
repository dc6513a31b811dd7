"""Turns figures into words and rows into tables, as wide and as colourful as the terminal allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TextIO

COLOURS = {"": "", "bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "36"}
LAST_COLUMN = 20
"""The least width that a column of prose can be read in."""
MINUTE, HOUR, DAY = 60, 3600, 86400
UNITS = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s"))


class Terminal(NamedTuple):
    """What can be done on an output: `live` = lines can be rewritten in place."""

    width: int = 80
    colour: bool = False
    live: bool = False

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.colour and colour and text else text


class Cell(NamedTuple):
    text: str
    colour: str = ""


def terminal(stream: TextIO | None = None) -> Terminal:
    """What `stream` can do; without a TTY, or with TERM=dumb, no colour and nothing rewritten. NO_COLOR: https://no-color.org."""
    stream = stream or sys.stdout
    live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Terminal(width=_width(stream), colour=live and not os.environ.get("NO_COLOR"), live=live)


def _width(stream: TextIO) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) <= 4 and int(columns):  # `²` is a digit too, and int() takes 4300 of them
        return max(40, int(columns))
    try:
        return max(40, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return 80  # no terminal: what people have in mind


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 51 min`, `2 d 3 h`."""
    whole = max(0, round(seconds))
    for size_s, name, smaller_s, smaller in UNITS:
        if whole >= size_s:
            rest = whole % size_s // smaller_s
            return f"{whole // size_s} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def clock(at: float, now: float) -> str:
    """Local time, as much of it as is needed beside `now`: seconds within the hour, the day when it is another one."""
    moment, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    time = moment.strftime("%H:%M:%S" if abs(at - now) < HOUR else "%H:%M")
    if moment.date() == today.date():
        return time
    return moment.strftime("%d %b " if moment.year == today.year else "%d %b %Y ") + time


def ago(at: float, now: float) -> str:
    """`03:10 (3 h 51 min ago)`, `07:01:44 (in 42 s)`."""
    distance = f"in {duration(at - now)}" if at > now else f"{duration(now - at)} ago"
    return f"{clock(at, now)} ({distance})"


def size(count: int | None) -> str:
    """Bytes in GiB, the unit that memory on GB10 is thought in; `?` where it is unread."""
    return "?" if count is None else f"{count / 2**30:.1f} GiB"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def wrap(text: str, width: int) -> list[str]:
    """Words in lines of at most `width`. What is longer, and a command in backticks, stays whole: fit to paste."""
    lines = [""]
    for word in _words(text):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.split():
        if words and words[-1].count("`") % 2 and text.count("`") % 2 == 0:
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def say(text: str, stream: TextIO | None = None, indent: str = "") -> None:
    """Prints prose as lines that fit; `stream` is stdout unless given."""
    width = terminal(stream).width - len(indent)
    for paragraph in text.splitlines():
        print("\n".join(indent + line for line in wrap(paragraph, width)), file=stream)


def labelled(label: str, text: str, term: Terminal, colour: str = "") -> list[str]:
    """`  since     03:10 …`, further lines under the first."""
    first, *more = [line for paragraph in text.splitlines() or [""] for line in wrap(paragraph, term.width - 13)]
    lines = [f"  {term.paint(f'{label:<9}', 'dim')}  {term.paint(first, colour)}"]
    return lines + [" " * 13 + term.paint(line, colour) for line in more]


def hint(command: str, what: str, term: Terminal) -> list[str]:
    """A command to type next and what it shows, beside it where there is room."""
    line = "  " + term.paint(f"{command:<28}", "cyan")
    beside = max(len(command), 28) + 4 + len(what) <= term.width
    return [f"{line}  {what}"] if beside else [line.rstrip(), f"    {what}"]


def table(header: Sequence[str], rows: Sequence[Sequence[Cell | str]], term: Terminal, indent: str = "  ") -> list[str]:
    """Columns as wide as their widest cell; the last one is wrapped into what is left of the line. On a terminal that
    has no room for that, each row as a list of what it says."""
    cells = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max([len(head), *(len(row[column].text) for row in cells)]) for column, head in enumerate(header)]
    left = len(indent) + sum(widths[:-1]) + 2 * (len(widths) - 1)
    if left + min(widths[-1], LAST_COLUMN) > term.width:
        return [line for row in cells for line in _listed(header, row, term, indent)]
    heads = [f"{head:<{width}}" for head, width in zip(header, widths, strict=True)]
    lines = [term.paint((indent + "  ".join(heads)).rstrip(), "dim")]
    for row in cells:
        first, *more = wrap(row[-1].text, max(LAST_COLUMN, term.width - left))
        padded = [f"{cell.text:<{width}}" for cell, width in zip(row, widths, strict=True)]
        painted = [term.paint(text, cell.colour) for text, cell in zip(padded[:-1], row, strict=False)]
        lines.append((indent + "  ".join([*painted, term.paint(first, row[-1].colour)])).rstrip())
        lines += [" " * left + term.paint(line, row[-1].colour) for line in more]
    return lines


def _listed(header: Sequence[str], row: Sequence[Cell], term: Terminal, indent: str) -> list[str]:
    """`rank 0, node spark1, state up, …`, further lines indented."""
    said = ", ".join(f"{head.lower()} {cell.text}" for head, cell in zip(header, row, strict=True))
    first, *more = wrap(said, term.width - len(indent) - 2)
    return [indent + first, *(f"{indent}  {line}" for line in more)]


def clean(line: str) -> str:
    """A line of another program without the characters that move the cursor or colour the rest of the screen."""
    if line.isprintable():
        return line
    import re  # log lines are rarely unprintable, and `ctl status` never gets here

    line = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)", "", line).rstrip("\r")
    return "".join(char for char in line.rpartition("\r")[2] if char == "\t" or char.isprintable())
