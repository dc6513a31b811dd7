"""The verbs of `sparkd ctl` that look: what may be typed, with its help; each imports what it needs when it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from sparkd.ctl.client import DEFAULT_SOCKET, Api
from sparkd.ctl.ending import ending
from sparkd.ctl.groups import Ordered, Whole
from sparkd.ctl.names import complete_deployments, complete_ranks, complete_saved, complete_sides


@click.group(cls=Ordered)
def ctl() -> None:
    """Ask and steer the running sparkd.

    NAME may be left out where there is exactly one deployment.

    \b
    Exit codes: 0 done / everything wanted up serves   1 failed or held
      2 wrong usage, not confirmed   3 sparkd cannot be reached
      4 status: something wanted is not serving   5 drift: differences
      6 --wait ran out of time

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
        type=click.Path(path_type=str),
        default=DEFAULT_SOCKET,
        envvar="SPARKD_SOCKET",
        show_default=True,
        show_envvar=True,
        metavar="PATH",
        help="The daemon's socket.",
    )
    @functools.wraps(function)
    def run(*, socket: str, as_json: bool, **arguments: Any) -> None:
        if click.get_current_context().invoked_subcommand is not None:
            return  # a group that shows something where nothing more is typed
        code = ending(lambda: function(Api(socket), as_json=as_json, **arguments), as_json)
        click.get_current_context().exit(code)

    return run


name = click.argument("name", required=False, shell_complete=complete_deployments)


@ctl.command()
@name
@verb
def status(api: Api, name: str | None, as_json: bool) -> int:
    """Does it serve, since when, why, and what happens next.

    Exits 0 when everything that is wanted up serves, otherwise 4.

    \b
    sparkd ctl status
    sparkd ctl status ds4-flash --json
    """
    from sparkd.ctl.look import show_status

    return show_status(api, name, as_json)


@ctl.command()
@name
@verb
def watch(api: Api, name: str | None, as_json: bool) -> int:
    """The status, kept up to date until ctrl-C.

    With --json one object a line, as things happen.

    \b
    sparkd ctl watch
    """
    from sparkd.ctl.watch import watch as run

    return run(api, name, as_json)


@ctl.command()
@name
@click.option("--list", "listing", is_flag=True, help="What is checked, and how much it matters.")
@verb
def check(api: Api, name: str | None, listing: bool, as_json: bool) -> int:
    """Run every check now: what would stop a start, with its fix.

    They run by themselves before every start. Exits 0 when nothing failed,
    4 when something did or could not be read.

    \b
    sparkd ctl check
    sparkd ctl check --list
    """
    from sparkd.ctl.check import list_checks, run_checks

    return list_checks(api, as_json) if listing else run_checks(api, name, as_json)


@ctl.command()
@name
@click.option(
    "--against",
    shell_complete=complete_sides,
    metavar="known-good|wanted|GENERATION",
    help="What to compare with: what worked (default), the files, or what was recorded of a generation.",
)
@click.option("--build", is_flag=True, help="How the image was built (commits, PRs, date), on every node.")
@click.option("--hash", "hashed", is_flag=True, help="Hash the model's weights first: minutes, with progress.")
@verb
def drift(api: Api, name: str | None, against: str | None, build: bool, hashed: bool, as_json: bool) -> int:
    """What is different from when it last worked.

    Compares how its ranks really run (or, where nothing runs, the next start)
    with what was recorded: flags, environment, image, container, files, nodes.
    Exits 0 when nothing above benign differs, 5 when something does, 1 when
    nothing is recorded or a node could not be read.

    Of the model's weights names and sizes are compared; with --hash their
    bytes, which every node reads slowly, half a core each, while this waits.
    They count in a record of `ctl bless` that is made afterwards.

    \b
    sparkd ctl drift
    sparkd ctl drift ds4-flash --against wanted
    sparkd ctl drift --build
    sparkd ctl drift --hash
    """
    from sparkd.ctl.drift_diff import show_build, show_drift

    return show_build(api, name, as_json) if build else show_drift(api, name, against, hashed, as_json)


@ctl.command()
@name
@verb
def why(api: Api, name: str | None, as_json: bool) -> int:
    """The cause of the last failure, with its evidence and the fix.

    Says too by which rule sparkd decided last; the manual has all of them.

    \b
    sparkd ctl why ds4-flash
    """
    from sparkd.ctl.why import show_why

    return show_why(api, name, as_json)


@ctl.command()
@name
@click.option("-f", "--follow", is_flag=True, help="Go on as the engine writes.")
@click.option("--tail", type=Whole(1, 10_000), default=100, show_default=True, metavar="N", help="The last N lines.")
@click.option("--rank", type=Whole(min=0), metavar="N", shell_complete=complete_ranks, help="Only this rank.")
@click.option("--all", "every", is_flag=True, help="Also the engine's access lines of what sparkd reads of it.")
@click.option(
    "--generation",
    type=Whole(min=1),
    metavar="N",
    shell_complete=complete_saved,
    help="What was saved of this failed one; `capture list` has them.",
)
@verb
def logs(api: Api, name: str | None, as_json: bool, **asked: Any) -> int:
    """What the engine says: all ranks, interleaved by time.

    Every line begins with its time and RANK@NODE.

    \b
    sparkd ctl logs -f --rank 1
    sparkd ctl logs ds4-flash --generation 13
    """
    from sparkd.ctl.logs import Asked, show_logs

    return show_logs(api, name, Asked(**asked), as_json)


@ctl.command()
@name
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option("--limit", type=Whole(1, 1000), default=20, show_default=True, metavar="N", help="Last N.")
@click.option("--outages", is_flag=True, help="When it did not answer and why, with a sum for each month.")
@verb
def history(api: Api, name: str | None, follow: bool, limit: int, outages: bool, as_json: bool) -> int:
    """What happened: starts, failures, holds, who asked for what.

    Without NAME of all deployments; the latest comes last. UNREAD is for
    how long of an outage nobody could tell whether it answered.

    \b
    sparkd ctl history --limit 100
    sparkd ctl history ds4-flash -f
    sparkd ctl history --outages
    """
    from sparkd.ctl.history import show_history
    from sparkd.ctl.outages import show_outages

    if outages:
        return show_outages(api, name, limit, follow, as_json)
    return show_history(api, name, limit, follow, as_json)


@ctl.group()
def capture() -> None:
    """What was saved of failed groups before they were taken down.

    \b
    sparkd ctl capture list
    """


@capture.command("list")
@name
@verb
def list_captures(api: Api, name: str | None, as_json: bool) -> int:
    """The generations whose logs and settings are saved, the latest last.

    \b
    sparkd ctl capture list ds4-flash
    """
    from sparkd.ctl.captures import show_list

    return show_list(api, name, as_json)


@capture.command("show")
@name
@click.option(
    "--generation", type=Whole(min=1), metavar="N", shell_complete=complete_saved, help="Default: the latest."
)
@verb
def show_capture(api: Api, name: str | None, generation: int | None, as_json: bool) -> int:
    """How one of them ended; with --json the whole settings of its ranks.

    \b
    sparkd ctl capture show --generation 13
    """
    from sparkd.ctl.captures import show_one

    return show_one(api, name, generation, as_json)


@ctl.group(cls=Ordered, invoke_without_command=True)
@verb
def nodes(api: Api, as_json: bool) -> int:
    """Which nodes answer, when they were booted, and their memory.

    Says too which are under maintenance, and when the power of one was taken.

    \b
    sparkd ctl nodes
    sparkd ctl nodes power-cycle spark2
    """
    from sparkd.ctl.look import show_nodes

    return show_nodes(api, as_json)
