"""The verbs of `sparkd ctl`: what may be typed, with its help; each imports what it needs when it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sparkd.ctl.client import DEFAULT_SOCKET, Api
from sparkd.ctl.ending import ending
from sparkd.ctl.names import complete_deployments, complete_nodes

Command = TypeVar("Command", bound=Callable[..., Any])


class Ordered(click.Group):
    """Lists its commands in the order in which they are written here: what is needed most comes first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Ordered)
def ctl() -> None:
    """Ask and steer the running sparkd.

    NAME may be left out where there is exactly one deployment.

    \b
    Exit codes: 0 done / everything wanted up serves   1 failed or held
      2 wrong usage, not confirmed   3 sparkd cannot be reached
      4 status: something wanted is not serving   6 --wait ran out of time

    \b
    sparkd ctl status
    sparkd ctl restart --wait -m "new image"
    sparkd ctl logs -f --rank 1
    """


def verb(function: Callable[..., int]) -> Callable[..., None]:
    """Adds --socket and --json, passes an Api, prints errors as text or JSON, exits with the returned number."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
    @click.option(
        "--socket",
        default=DEFAULT_SOCKET,
        envvar="SPARKD_SOCKET",
        show_default=True,
        show_envvar=True,
        metavar="PATH",
        help="The daemon's socket.",
    )
    @functools.wraps(function)
    def run(*, socket: str, as_json: bool, **arguments: Any) -> None:
        code = ending(lambda: function(Api(socket), as_json=as_json, **arguments), as_json)
        click.get_current_context().exit(code)

    return run


name = click.argument("name", required=False, shell_complete=complete_deployments)


def changing(function: Command) -> Command:
    """The options of every verb that changes something."""
    for option in (
        click.option("-m", "--message", default="", metavar="REASON", help="Why; kept in the history."),
        click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0),
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


@ctl.command()
@name
@verb
def status(api: Api, name: str | None, as_json: bool) -> int:
    """Does it serve, since when, why, and what happens next.

    Exits 0 when everything that is wanted up serves, otherwise 4.
    """
    from sparkd.ctl.look import show_status

    return show_status(api, name, as_json)


@ctl.command()
@name
@verb
def watch(api: Api, name: str | None, as_json: bool) -> int:
    """The status, kept up to date until ctrl-C.

    With --json one object a line, as things happen.
    """
    from sparkd.ctl.watch import watch as run

    return run(api, name, as_json)


@ctl.command()
@name
@verb
def why(api: Api, name: str | None, as_json: bool) -> int:
    """The cause of the last failure, with its evidence and the fix."""
    from sparkd.ctl.why import show_why

    return show_why(api, name, as_json)


@ctl.command()
@name
@click.option("-f", "--follow", is_flag=True, help="Go on as the engine writes.")
@click.option(
    "--tail", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="The last N lines."
)
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--all", "every", is_flag=True, help="Also the engine's access lines of GET /health and /metrics.")
@verb
def logs(api: Api, name: str | None, follow: bool, tail: int, rank: int | None, every: bool, as_json: bool) -> int:
    """What the engine says: all ranks, interleaved by time.

    Every line begins with its time and RANK@NODE.
    """
    from sparkd.ctl.logs import show_logs

    return show_logs(api, name, tail, follow, rank, every, as_json)


@ctl.command()
@name
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="Last N.")
@verb
def history(api: Api, name: str | None, follow: bool, limit: int, as_json: bool) -> int:
    """What happened: starts, failures, holds, and who asked for what.

    Without NAME of all deployments; the latest comes last.
    """
    from sparkd.ctl.history import show_history

    return show_history(api, name, limit, follow, as_json)


@ctl.command()
@verb
def nodes(api: Api, as_json: bool) -> int:
    """The nodes: can they be asked, since when are they up, their memory."""
    from sparkd.ctl.look import show_nodes

    return show_nodes(api, as_json)


@ctl.command()
@name
@changing
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
@verb
def restart(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Stop all its ranks together and start them as a new generation.

    Costs nothing of the restart budget. Asks first.

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
    """
    return _change(api, "pause", name, as_json, **asked)


@ctl.command()
@name
@changing
@verb
def resume(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """End a pause: sparkd looks, takes over what runs, and acts again."""
    return _change(api, "resume", name, as_json, **asked)


@ctl.command()
@name
@changing
@verb
def release(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """Try again after a hold, once its cause is fixed.

    Needed only for holds that do not heal by themselves; `status` says which.
    """
    return _change(api, "release", name, as_json, **asked)
