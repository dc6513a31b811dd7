"""The commands and docs/interfaces.md -> docs/cli.md and the manual page sparkd(1)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from sparkd import __version__
from sparkd.cli.main import cli
from sparkd.ctl.groups import commands

INTERFACES = Path(__file__).parents[2] / "docs" / "interfaces.md"


class Page(NamedTuple):
    """One command: what is typed, what it does, an example at least, and its options."""

    name: str
    usage: str
    prose: tuple[str, ...]
    examples: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


def pages() -> list[Page]:
    """Every command of the command line, in the order of its help."""
    return [_page(path, command) for path, command in [((), cli), *commands(cli)]]


def _page(path: tuple[str, ...], command: click.Command) -> Page:
    name = " ".join(("sparkd", *path))
    context = click.Context(command, info_name=name, **cli.context_settings)
    paragraphs = inspect.cleandoc(f"{command.help or ''}\n\n{command.epilog or ''}").split("\n\n")
    verbatim = [part.removeprefix("\b\n") for part in paragraphs if part.startswith("\b\n")]
    prose = tuple(" ".join(part.split()) for part in paragraphs if part and not part.startswith("\b\n"))
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    options = (option for option in command.params if isinstance(option, click.Option))
    records = tuple(record for option in options if (record := option.get_help_record(context)))
    return Page(name, usage, prose, tuple(verbatim), records)


def section(title: str) -> str:
    """One section of docs/interfaces.md, without its heading."""
    return (
        re.split(r"^## ", INTERFACES.read_text("utf-8"), flags=re.MULTILINE)[_place(title)].partition("\n")[2].strip()
    )


def _place(title: str) -> int:
    titles = re.findall(r"^## (.*)$", INTERFACES.read_text("utf-8"), re.MULTILINE)
    return titles.index(title) + 1


# ------------------------------------------------------------------------------------------------------------ markdown

INTRO = """\
# The command line

What `--help` says of every command, in one place. Written by `make docs`; the same as a manual page is
`docs/sparkd.1` (`man -l docs/sparkd.1`).
"""


def markdown() -> str:
    found = pages()
    index = "\n".join(f"* [`{page.name}`](#{page.name.replace(' ', '-')}): {page.prose[0]}" for page in found[1:])
    whole = [
        INTRO,
        index,
        *map(_markdown, found),
        f"## Exit codes\n\n{section('Exit codes')}",
        f"## Files\n\n{section('Files')}",
    ]
    return "\n\n".join(part.strip("\n") for part in whole) + "\n"


def _markdown(page: Page) -> str:
    parts = [f"## {page.name}", f"    {page.usage}", *page.prose]
    parts += [_indented(example) for example in page.examples]
    if page.options:
        rows = "\n".join(f"| `{names}` | {_cell(says)} |" for names, says in page.options)
        parts.append(f"| option | |\n| --- | --- |\n{rows}")
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --------------------------------------------------------------------------------------------------------- manual page


def manual() -> str:
    first, *rest = pages()
    lines = [
        f'.TH SPARKD 1 "" "sparkd {__version__}" "User Commands"',
        ".SH NAME",
        f"sparkd \\- {_troff(first.prose[0][0].lower() + first.prose[0][1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_troff(first.usage)}",
        ".SH DESCRIPTION",
        *_body(first),
        ".SH COMMANDS",
    ]
    for page in rest:
        lines += [f".SS {_troff(page.usage)}", *_body(page)]
    lines += [".SH EXIT STATUS", *_table(section("Exit codes")), ".SH FILES", *_prose(section("Files"))]
    lines += [".SH RULES", *_rules(section("Rules that never break")), ".SH ENVIRONMENT", *_environment()]
    return "\n".join(lines) + "\n"


def _body(page: Page) -> Iterator[str]:
    for text in page.prose:
        yield from (".PP", _troff(text))
    for example in page.examples:
        yield from (".PP", ".nf", ".RS 4", *(_troff(line) for line in example.splitlines()), ".RE", ".fi")
    for names, says in page.options:
        yield from (".TP", f"\\fB{_troff(names)}\\fR", _troff(" ".join(says.split())))


def _table(text: str) -> Iterator[str]:
    """The rows of a table as terms with what they mean, then what stands below it."""
    for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE):
        yield from (".TP", f".B {code}", _troff(meaning))
    yield from _prose("\n".join(line for line in text.splitlines() if not line.startswith("|")))


def _prose(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield from (".PP", _troff(" ".join(paragraph.split())))


def _rules(text: str) -> Iterator[str]:
    yield from (".PP", _troff("`sparkd ctl why` names the one that the last decision went by."))
    for number, rule in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", text, re.MULTILINE | re.DOTALL):
        yield from (".TP", f".B {number}", _troff(" ".join(rule.replace("*", "").split())))


def _environment() -> Iterator[str]:
    for name, says in ENVIRONMENT.items():
        yield from (".TP", f".B {name}", _troff(says))


ENVIRONMENT = {
    "SPARKD_CONFIG": "The configuration, where --config is not given.",
    "SPARKD_SOCKET": "The daemon's socket, where --socket is not given.",
    "NO_COLOR": "Set to anything: no colours. Without a terminal, and with TERM=dumb, there are none anyway.",
    "COLUMNS": "How wide lines may be, where the terminal does not say.",
}


def _troff(text: str) -> str:
    """Plain text as the argument of a macro or a line of text; `code` becomes bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text[:1] in (".", "'") else text
