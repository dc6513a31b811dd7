"""The verbs of `sparkd ctl` that change something: what may be typed for each, as its file in `sparkd/verbs` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sparkd.ctl.client import Api
from sparkd.ctl.commands import ctl, name, verb
from sparkd.ctl.groups import Command, Number
from sparkd.ctl.names import complete_nodes

if TYPE_CHECKING:
    from sparkd.verbs import Option, Verb

__all__ = ["ctl"]

EVERY = (
    click.option("--wait", is_flag=True, help="Wait until it is done, and show how far it is."),
    click.option("--timeout", "timeout_s", type=Number(min=0), metavar="S", help="Wait no longer than this (exit 6)."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
    click.option("-m", "--message", default="", metavar="REASON", help="Why; kept in the history."),
)
"""The options of every verb that changes something."""


def _commands() -> Iterator[tuple[str, click.Command]]:
    from sparkd.verbs import verbs  # `ctl status` needs none of them

    return ((one.name, _command(one)) for one in verbs().values())


def _command(one: Verb) -> click.Command:
    @verb
    def run(api: Api, name: str | None, as_json: bool, **typed: Any) -> int:
        from sparkd.ctl.change import Asked, change

        given = {option.key: typed.pop(option.key) for option in one.takes}
        return change(api, one, name, Asked({key: value for key, value in given.items() if value}, **typed), as_json)

    names = [_names(option) for option in one.takes if option.nodes]
    switches = [click.option(option.flag, is_flag=True, help=option.help) for option in one.takes if not option.nodes]
    for add in reversed((name, *names, *EVERY, *switches)):
        run = add(run)
    text = "\n".join((one.help, "", "\b", *one.examples))
    return click.command(one.name, cls=Command, help=text)(run)


def _names(option: Option) -> Any:
    """What adds an option that takes names of nodes."""
    return click.option(option.flag, multiple=True, metavar="NODE", shell_complete=complete_nodes, help=option.help)


ctl.add_later(_commands)


@ctl.command()
@click.option("-m", "--message", default="", metavar="REASON", help="Why; kept in the history.")
@verb
def reload(api: Api, message: str, as_json: bool) -> int:
    """Read the configuration again. What runs goes on as it was started.

    A sparkd.yaml that cannot be used changes nothing at all. A deployment file
    that cannot be used is shown as such, and the others count. Exits 2 for both.

    \b
    sparkd ctl reload -m "longer context"
    """
    from sparkd.ctl.reload import reload as run

    return run(api, message, as_json)
