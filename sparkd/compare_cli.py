"""`sparkd compare A B`: two files turned into what is different between what they run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sparkd.ctl.ending import ending
from sparkd.ctl.errors import Usage
from sparkd.ctl.groups import Whole
from sparkd.ctl.text import Terminal, count, labelled, listing, terminal, wrap

if TYPE_CHECKING:
    from sparkd.drift import Difference, Side

DIFFERENT = 5
"""The exit code for differences above benign (docs/interfaces.md)."""

KIND_NAMES = ("deployment", "script", "unit", "inspect", "known-good")
"""As in sparkd.importers, which is not loaded until the command runs."""

COLOURS = {"breaks": "red", "slows": "yellow", "unknown": "cyan", "benign": "dim"}


@click.command()
@click.argument("a", type=click.Path(path_type=str))
@click.argument("b", type=click.Path(path_type=str))
@click.option("--rank", type=Whole(min=0), metavar="N", help="Only this rank.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KIND_NAMES),
    multiple=True,
    help="What the files are, where their content does not show it; twice: of A, then of B.",
)
@click.option(
    "--config", "config", type=click.Path(path_type=str), metavar="PATH", help="The sparkd.yaml of deployment files."
)
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="A variable that the scripts take from around."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def compare(
    a: str, b: str, rank: int | None, kinds: tuple[str, ...], config: str | None, given: tuple[str, ...], as_json: bool
) -> None:
    """What is different between what A runs and what B runs.

    A is how it should be, B how it is: both are deployment files, launch scripts, systemd units, `docker inspect` JSON,
    known-good files, or folders with all files of one side. They are read and followed, never executed. Exits 0 without
    differences above benign, else 5.

    \b
    sparkd compare /etc/sparkd/deployments/ds4-flash.yaml vllm-head.sh
    sparkd compare vllm-head.sh vllm-worker.sh
    docker inspect vllm_ds4 > now.json; sparkd compare known-good.yaml now.json
    """
    if len(kinds) > 2:
        raise click.UsageError("--kind counts for both files, or is given twice: first for A, then for B")
    if bad := next((one for one in given if not one.partition("=")[0].isidentifier() or "=" not in one), None):
        raise click.UsageError(f"--set {bad}: write NAME=VALUE")
    click.get_current_context().exit(ending(lambda: _compare(a, b, rank, kinds, config, given, as_json), as_json))


def _compare(
    a: str, b: str, rank: int | None, kinds: tuple[str, ...], config: str | None, given: tuple[str, ...], as_json: bool
) -> int:
    from pathlib import Path

    from sparkd import drift
    from sparkd.errors import SparkdError
    from sparkd.importers.read import read_side

    of_a, of_b = (kinds[0], kinds[-1]) if kinds else (None, None)
    where = Path(config) if config else None
    around = dict(one.split("=", 1) for one in given)
    try:
        known, live = read_side(Path(a), of_a, where, around), read_side(Path(b), of_b, where, around)
    except SparkdError as error:
        raise Usage(str(error), "sparkd compare --help says what can be read") from None
    if not drift.paired(known, live):
        raise Usage("the two have no rank in common", f"{_ranks(known)}; {_ranks(live)}")
    if rank is not None and None in (known.rank(rank), live.rank(rank)):
        raise Usage(f"rank {rank} is not in both", f"{_ranks(known)}; {_ranks(live)}")
    found, left_out = drift.compare(known, live, rank), drift.not_compared(known, live, rank)
    if as_json:
        findings = [one.as_json() for one in found]
        answer = {"schema": 1, "against": a, "findings": findings, "not_compared": list(left_out)}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(screen(known, live, found, left_out, terminal())))
    return DIFFERENT if any(one.severity is not drift.Severity.BENIGN for one in found) else 0


def _ranks(side: Side) -> str:
    return f"{side.label} has {listing(f'rank {form.rank}' for form in side.ranks)}"


# -------------------------------------------------------------------------------------------------------------- screen


def screen(known: Side, live: Side, found: Sequence[Difference], left_out: Sequence[str], term: Terminal) -> list[str]:
    """The differences, worst first: the line of A in red, that of B in green, then why and what to do."""
    lines = [
        term.paint(f"--- {known.label} ({known.kind}, {count(len(known.ranks), 'rank')})", "red"),
        term.paint(f"+++ {live.label} ({live.kind}, {count(len(live.ranks), 'rank')})", "green"),
    ]
    for one in found:
        lines += ["", *_difference(one, term)]
    counts = {severity: sum(one.severity == severity for one in found) for severity in COLOURS}
    said = [f"{number} {severity}" for severity, number in counts.items() if number]
    colour = next((COLOURS[severity] for severity, number in counts.items() if number), "green")
    whole = f"{count(len(found), 'difference')}: {listing(said)}." if found else "No difference in what was compared."
    lines += ["", *(term.paint(line, colour) for line in wrap(whole, term.width))]
    for text in left_out:
        lines += [term.paint(line, "dim") for line in wrap(f"Not compared, {text}.", term.width)]
    return lines


def _difference(one: Difference, term: Terminal) -> Iterator[str]:
    from sparkd.drift.words import short

    place = "" if one.rank is None else f", rank {one.rank}" + (f" on {one.node}" if one.node else "")
    yield (
        term.paint(f"{one.severity:<8}", COLOURS[one.severity])
        + term.paint(f"{one.name}", "bold")
        + f" ({one.kind}{place})"
    )
    if one.kind != "file" or one.known is not None or one.live is not None:
        yield term.paint(f"  - {short(one.known)}", "red")
        yield term.paint(f"  + {short(one.live)}", "green")
    for label, text in (("why", one.why), ("fix", one.fix)):
        if text:
            yield from labelled(label, text, term)
