"""`sparkd compare A B`: two files turned into what is different between what they run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from sparkd.ctl.drift_values import Drift
from sparkd.ctl.ending import ending
from sparkd.ctl.errors import DIFFERENT, Usage
from sparkd.ctl.groups import Whole
from sparkd.ctl.reading import read
from sparkd.ctl.text import count, listing, terminal

if TYPE_CHECKING:
    from sparkd.drift import Side

KIND_NAMES = ("deployment", "script", "unit", "inspect", "known-good")
"""As in sparkd.importers, which is not loaded until the command runs."""


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
    from sparkd.base.errors import SparkdError
    from sparkd.ctl.findings import screen
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
    findings = [one.as_json() for one in found]
    if as_json:
        answer = {"schema": 1, "against": a, "findings": findings, "not_compared": list(left_out)}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        sides = [f"{one.label} ({one.kind}, {count(len(one.ranks), 'rank')})" for one in (known, live)]
        shown = read(
            Drift, {"against": sides[0], "live": sides[1], "findings": findings, "not_compared": list(left_out)}
        )
        click.echo("\n".join(screen(shown, terminal())))
    return DIFFERENT if any(one.severity is not drift.Severity.BENIGN for one in found) else 0


def _ranks(side: Side) -> str:
    return f"{side.label} has {listing(f'rank {form.rank}' for form in side.ranks)}"
