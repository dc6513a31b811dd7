"""The verbs of `sparkd ctl` that change something: what may be typed, with its help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sparkd.ctl.client import Api
from sparkd.ctl.commands import ctl, name, verb
from sparkd.ctl.groups import Number
from sparkd.ctl.names import complete_nodes

__all__ = ["ctl"]

Command = TypeVar("Command", bound=Callable[..., Any])


def changing(function: Command) -> Command:
    """The options of every verb that changes something."""
    for option in (
        click.option("-m", "--message", default="", metavar="REASON", help="Why; kept in the history."),
        click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--timeout",
            "timeout_s",
            type=Number(min=0),
            metavar="S",
            help="Wait no longer than this (exit 6).",
        ),
        click.option("--wait", is_flag=True, help="Wait until it is done, and show how far it is."),
    ):
        function = option(function)
    return function


def _change(api: Api, which: str, name: str | None, as_json: bool, **asked: Any) -> int:
    from sparkd.ctl.change import Asked, change

    return change(api, which, name, Asked(**asked), as_json)


force = click.option("--force", is_flag=True, help="Also where it differs from what worked, and that may break it.")


@ctl.command()
@name
@changing
@force
@verb
def start(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Start it, and keep it up from now on.

    \b
    sparkd ctl start --wait
    """
    return _change(api, "start", name, as_json, **asked)


@ctl.command()
@name
@click.option(
    "--assume-lost",
    multiple=True,
    metavar="NODE",
    shell_complete=complete_nodes,
    help="This node is switched off for good: count what ran there as dead, unseen. Repeatable.",
)
@changing
@verb
def stop(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Stop all its ranks; it stays down until somebody starts it.

    That survives restarts of sparkd and reboots. Asks first.

    \b
    sparkd ctl stop --wait --yes
    sparkd ctl stop --assume-lost spark2 -m "power supply is dead"
    """
    return _change(api, "stop", name, as_json, **asked)


@ctl.command()
@name
@changing
@force
@click.option("--clean", is_flag=True, help="Empty its compile caches first, on every node.")
@verb
def restart(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Stop all its ranks together and start them as a new generation.

    Costs nothing of the restart budget. Asks first. Caches that --clean
    empties are those in its mounts, such as .cache/vllm, never models.

    \b
    sparkd ctl restart --wait -m "new image"
    """
    return _change(api, "restart", name, as_json, **asked)


@ctl.command()
@name
@changing
@verb
def pause(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Keep looking, but do nothing to it: for work by hand.

    What runs goes on running. Lasts until `resume`. Asks first.

    \b
    sparkd ctl pause -m "trying other flags by hand"
    """
    return _change(api, "pause", name, as_json, **asked)


@ctl.command()
@name
@changing
@verb
def resume(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """End a pause: sparkd looks, takes over what runs, and acts again.

    \b
    sparkd ctl resume --wait
    """
    return _change(api, "resume", name, as_json, **asked)


@ctl.command()
@name
@changing
@verb
def release(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Try again after a hold, once its cause is fixed.

    Needed only for holds that do not heal by themselves; `status` says which.

    \b
    sparkd ctl release --wait -m "cable replaced"
    """
    return _change(api, "release", name, as_json, **asked)


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
