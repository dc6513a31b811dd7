"""`sparkd demo` and `sparkd demo fault NAME`: what may be typed; everything else is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

FAULT_NAMES = (
    *("kill-worker", "kill-head", "kill-sparkd", "oom", "freeze", "hang", "error-chunk", "nonsense", "slow-start"),
    *("die-starting", "port-taken", "exit127", "drift", "heal"),
)
INTERRUPTED = 130


@click.group(invoke_without_command=True)
@click.option("--once", is_flag=True, help="End after the story, also on a terminal.")
@click.pass_context
def demo(context: click.Context, once: bool) -> None:
    """See it work: two local nodes, a simulated engine, a fault.

    Needs no root, Docker, SSH or GPU, takes half a minute and leaves nothing
    behind. On a terminal it stays up afterwards, with a page to look at and
    faults to try. Exits 0 when the story came true, otherwise 1.

    \b
    sparkd demo
    sparkd demo --once
    sparkd demo fault freeze        (in another terminal)
    """
    if context.invoked_subcommand is None:
        context.exit(_ending(lambda: _play(stays=not once and sys.stdout.isatty())))


@demo.command()
@click.argument("name", type=click.Choice(FAULT_NAMES), metavar="NAME")
@click.pass_context
def fault(context: click.Context, name: str) -> None:
    """Break something in the running demo, and see what sparkd does.

    Says what will be seen, shows it as it happens, and ends with it.

    \b
    sparkd demo fault freeze

    \b
    kill-worker   the worker's engine process is killed
    kill-head     the head's API server is killed
    kill-sparkd   sparkd itself is killed: the engine does not notice
    oom           the worker is killed as for lack of memory (simulated)
    freeze        the worker hangs; all processes live, /health is green
    hang          requests are accepted and never answered
    error-chunk   answers break off under HTTP status 200
    nonsense      answers make no sense, with every light green
    slow-start    a start takes 15 s instead of two: sparkd waits
    die-starting  the worker ends while it loads: vLLM's head would wait
    port-taken    another program holds the API's port
    exit127       both ranks end as if their program had gone: held
    drift         the deployment's file changes: a restart is pending
    heal          takes the fault away, releases a hold, starts again
    """
    context.exit(_ending(lambda: _break(name)))


def _play(stays: bool) -> None:
    from sparkd.demo.scene import Scene
    from sparkd.demo.stand import stand
    from sparkd.demo.story import called, stay, tell

    with stand() as made:
        scene = Scene(made.layout)
        tell(scene)
        if not stays:
            called()
            return
        stay(scene)
        made.wait()


def _break(name: str) -> None:
    from sparkd.demo.errors import DemoError
    from sparkd.demo.faults import show
    from sparkd.demo.layout import load
    from sparkd.demo.lock import running
    from sparkd.demo.scene import Scene

    folder = running()
    if folder is None:
        raise DemoError("no demo of yours is running", "start one in another terminal: sparkd demo")
    show(Scene(load(folder)), name)


def _ending(act: Callable[[], None]) -> int:
    """The exit code, and the reason on stderr."""
    from sparkd.ctl.errors import CtlError
    from sparkd.ctl.text import say
    from sparkd.demo.errors import DemoError

    try:
        act()
    except (DemoError, CtlError) as error:
        say(f"sparkd demo: {error.text}", sys.stderr)
        if error.fix:
            say(error.fix, sys.stderr, indent="  ")
        return 1
    except KeyboardInterrupt:
        click.echo("\nended", err=True)
        return INTERRUPTED
    return 0
