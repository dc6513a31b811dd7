"""The verbs of `sparkd ctl` about what worked: what may be typed, with its help."""

from __future__ import annotations

import click

from sparkd.ctl.changing import ctl
from sparkd.ctl.client import Api
from sparkd.ctl.commands import name, verb
from sparkd.ctl.groups import Whole
from sparkd.ctl.names import complete_recorded

__all__ = ["ctl"]

generation = click.option(
    "--generation",
    type=Whole(min=1),
    metavar="N",
    shell_complete=complete_recorded,
    help="Default: what everything is compared with.",
)


@ctl.command()
@name
@click.option(
    "--generation",
    type=Whole(min=1),
    metavar="N",
    shell_complete=complete_recorded,
    help="One that is recorded; default: what runs now.",
)
@click.option("-m", "--note", default="", metavar="TEXT", help="Why this one; kept with it.")
@verb
def bless(api: Api, name: str | None, generation: int | None, note: str, as_json: bool) -> int:
    """Say that this is how it should be, to be compared with.

    A generation that has answered for a while is recorded by itself; a blessed
    one stays what counts until another is blessed.

    \b
    sparkd ctl bless --note "44 tok/s after the driver update"
    """
    from sparkd.ctl.known_good import bless as run

    return run(api, name, generation, note, as_json)


@ctl.group("known-good")
def known_good() -> None:
    """What ran when it worked: records that sparkd makes by itself.

    \b
    sparkd ctl known-good list
    """


@known_good.command("list")
@name
@verb
def list_records(api: Api, name: str | None, as_json: bool) -> int:
    """The recorded generations, with what was measured.

    \b
    sparkd ctl known-good list ds4-flash
    """
    from sparkd.ctl.known_good import show_list

    return show_list(api, name, as_json)


@known_good.command("show")
@name
@generation
@verb
def show_record(api: Api, name: str | None, generation: int | None, as_json: bool) -> int:
    """One record, as the YAML that is kept.

    \b
    sparkd ctl known-good show --generation 12
    """
    from sparkd.ctl.known_good import show_one

    return show_one(api, name, generation, as_json)


@known_good.command("diff")
@click.argument("before", type=Whole(min=1), shell_complete=complete_recorded)
@click.argument("after", type=Whole(min=1), shell_complete=complete_recorded)
@name
@verb
def diff_records(api: Api, before: int, after: int, name: str | None, as_json: bool) -> int:
    """In what generation AFTER differs from generation BEFORE.

    \b
    sparkd ctl known-good diff 12 14 ds4-flash
    """
    from sparkd.ctl.known_good import show_diff

    return show_diff(api, name, before, after, as_json)


@known_good.command("rollback")
@name
@generation
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verb
def roll_back(api: Api, name: str | None, generation: int | None, yes: bool, as_json: bool) -> int:
    """Put the deployment file of that time back.

    Shows the difference, asks, and keeps the present file beside it. What was
    put back counts from the next start on.

    \b
    sparkd ctl known-good rollback --generation 12
    """
    from sparkd.ctl.known_good import roll_back as run

    return run(api, name, generation, yes, as_json)
