"""The `sparkd` command: what may be typed, each command importing what it needs only when it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sparkd import __version__
from sparkd.ctl.client import Api, default_socket
from sparkd.ctl.commands import Ordered, ctl
from sparkd.ctl.ending import printable_output
from sparkd.ctl.errors import CtlError
from sparkd.ctl.names import suggestion
from sparkd.ctl.text import count
from sparkd.demo.cli import demo

if TYPE_CHECKING:
    from sparkd.errors import Problem
    from sparkd.model.rank import RankSpec

NO_OWNER = "00000000-0000-0000-0000-000000000000"
"""Shown as the owner while no daemon answers: its id is made at its first start."""

RENDER_DEADLINE_S = 1.0

COMPLETION = """\b
Completion of commands, options and deployment names (bash; zsh and fish likewise):
  eval "$(_SPARKD_COMPLETE=bash_source sparkd)"
"""

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=str),
    default="/etc/sparkd",
    envvar="SPARKD_CONFIG",
    show_default=True,
    show_envvar=True,
    metavar="PATH",
    help="A directory, or its sparkd.yaml.",
)


@click.group(cls=Ordered, context_settings={"help_option_names": ["-h", "--help"]}, epilog=COMPLETION)
@click.version_option(__version__, message="sparkd %(version)s", help="The version of this command.")
def cli() -> None:
    """Keeps multi-node language-model servers answering, and says why when they don't."""


@cli.command()
@config_option
def run(config_path: str) -> None:
    """Run the daemon, on the head node.

    Exits 2 when sparkd.yaml cannot be used, 7 when another sparkd owns the
    state. A broken deployment file holds that deployment alone.
    """
    from pathlib import Path

    from sparkd.daemon import run as run_daemon
    from sparkd.errors import ConfigError

    try:
        code = run_daemon(Path(config_path))
    except ConfigError as error:
        _complain(error.problems)
        code = 2
    click.get_current_context().exit(code)


@cli.group(cls=Ordered)
def config() -> None:
    """Work on the configuration."""


@config.command()
@click.argument("path", required=False, type=click.Path(path_type=str))
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def check(path: str | None, config_path: str, as_json: bool) -> None:
    """Every problem of every file, with its line and what to write instead.

    PATH is a directory or its sparkd.yaml, as with --config. Needs no daemon and touches no node.

    \b
    sparkd config check
    sparkd config check ./config
    """
    from pathlib import Path

    from sparkd.errors import ConfigError
    from sparkd.settings import check as find_problems
    from sparkd.settings import load
    from sparkd.settings.files import DEPLOYMENTS

    where = Path(path or config_path)
    if where.is_file() and where.parent.name == DEPLOYMENTS:
        folder = where.parent.parent
        raise click.UsageError(f"{where} is a deployment file; give its folder: sparkd config check {folder}")
    problems = find_problems(where)
    counts = {}
    if not problems:
        try:
            loaded = load(where)
            counts = {"nodes": len(loaded.cluster.nodes), "deployments": len(loaded.deployments)}
        except ConfigError as error:  # a file changed between the two looks
            problems = error.problems
    if as_json:
        answer = {"schema": 1, "ok": not problems, **counts, "problems": [_problem(problem) for problem in problems]}
        click.echo(json.dumps(answer, indent=2))
    elif problems:
        _complain(problems)
    else:
        runs = "" if counts["deployments"] else "; nothing would run"
        click.echo(f"ok: {count(counts['nodes'], 'node')}, {count(counts['deployments'], 'deployment')}{runs}")
    click.get_current_context().exit(2 if problems else 0)


@cli.command()
@click.argument("deployment")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["docker", "json", "script"]),
    default="docker",
    show_default=True,
    help="A docker command line, the values as JSON, or a shell script.",
)
@config_option
def render(deployment: str, rank: int | None, form: str, config_path: str) -> None:
    """What would run: argv, environment and container of every rank.

    Secrets are shown as the files they come from. Owner and generation are the running daemon's where it answers.

    \b
    sparkd render ds4-flash --rank 1
    sparkd render ds4-flash --format json
    """
    from sparkd import render as forms

    specs = _specs(deployment, rank, config_path)
    if form == "json":
        click.echo(json.dumps(forms.as_json(specs), indent=2))
        return
    write = forms.as_docker if form == "docker" else forms.as_script
    for spec in specs:
        if form == "docker":
            click.echo(f"# rank {spec.rank} on {spec.node}")
        click.echo(write(spec).rstrip("\n"))
        if spec is not specs[-1]:
            click.echo()


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def version(as_json: bool) -> None:
    """The version of this command; the daemon's is in `sparkd ctl status`."""
    click.echo(json.dumps({"schema": 1, "version": __version__}) if as_json else f"sparkd {__version__}")


cli.add_command(ctl)
cli.add_command(demo)


def _specs(name: str, rank: int | None, config_path: str) -> tuple[RankSpec, ...]:
    """The deployment's ranks, as they would be created; ends the command with 2 where there are none to show."""
    from pathlib import Path

    from sparkd.errors import ConfigError
    from sparkd.render import rank_specs
    from sparkd.settings import load

    try:
        loaded = load(Path(config_path))
    except ConfigError as error:
        _complain(error.problems)
        sys.exit(2)
    broken = next((one for one in loaded.broken if one.name == name), None)
    if broken:
        click.echo("\n".join(broken.problems), err=True)
        sys.exit(2)
    deployment = next((one for one in loaded.deployments if one.name == name), None)
    if deployment is None:
        names = [one.name for one in loaded.deployments] + [one.name for one in loaded.broken]
        hint = suggestion(name, names) if names else "none is configured"
        raise click.UsageError(f"there is no deployment {name!r}; {hint}")
    owner, generation = _identity(name)
    specs = rank_specs(deployment, loaded.cluster.nodes, owner, generation)
    if rank is not None and rank >= len(specs):
        raise click.UsageError(f"{name} has no rank {rank}: its ranks are 0 to {len(specs) - 1}")
    return specs if rank is None else (specs[rank],)


def _identity(name: str) -> tuple[str, int]:
    """Owner id and generation, from the daemon where it answers; rendering needs no daemon."""
    from sparkd.ctl.answers import Status, read

    api = Api(default_socket(), RENDER_DEADLINE_S)
    try:
        status = read(Status, api.get("/api/v1/status"))
    except CtlError:
        return NO_OWNER, 1
    running = next((one.generation for one in status.deployments if one.name == name), None)
    return status.daemon.owner or NO_OWNER, max(1, running or 1)


def _problem(problem: Problem) -> dict[str, object]:
    return {"file": problem.file, "line": problem.line, "path": problem.path, "text": problem.text, "fix": problem.fix}


def _complain(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
    click.echo(f"{count(len(problems), 'problem')} in the configuration", err=True)


def main() -> None:
    printable_output()
    cli(prog_name="sparkd")
