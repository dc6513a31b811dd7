"""The `sparkd` command: what may be typed, each command importing what it needs only when it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sparkd import __version__
from sparkd.cli.check import check as check_nodes
from sparkd.cli.compare import compare
from sparkd.cli.tab_completion import complete_deployments, complete_ranks
from sparkd.ctl.ending import ending, printable_output
from sparkd.ctl.errors import USAGE
from sparkd.ctl.groups import Ordered, Whole, config_option
from sparkd.ctl.node_commands import ctl
from sparkd.ctl.text import count
from sparkd.demo.cli import demo

if TYPE_CHECKING:
    from sparkd.base.errors import Problem

EPILOG = """\b
sparkd demo                   see it work, without root, Docker or GPU
sparkd config check           is the configuration right?
sparkd ctl status             does it serve, and why not?

The Tab key knows commands, options, and the names of deployments and nodes:
sparkd completion --help says how to switch that on. The manual is
docs/cli.md, and man sparkd.
"""


class Sparkd(Ordered):
    """The whole command."""

    def invoke(self, ctx: click.Context) -> None:
        """A reader that went away (`| head`) is no failure, whichever command wrote to it; ctrl-C says nothing."""
        run_typed = super().invoke
        ctx.exit(ending(lambda: int(run_typed(ctx) or 0), as_json=False))


@click.group(cls=Sparkd, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, message="sparkd %(version)s", help="The version of this command.")
def cli() -> None:
    """Keeps multi-node language-model servers answering, and says why when they don't."""


@cli.command()
@config_option
def run(config_path: str) -> None:
    """Run the daemon, on the head node.

    Exits 2 when sparkd.yaml cannot be used, 7 when another sparkd owns the
    state. A broken deployment file holds that deployment alone.

    \b
    sparkd run
    sparkd run --config ./config
    """
    from pathlib import Path

    from sparkd.base.errors import ConfigError
    from sparkd.daemon.run import run as run_daemon

    try:
        code = run_daemon(Path(config_path))
    except ConfigError as error:
        _complain(error.problems)
        code = 2
    click.get_current_context().exit(code)


@cli.group(cls=Ordered)
def config() -> None:
    """Work on the configuration.

    \b
    sparkd config check
    """


@config.command()
@click.argument("path", required=False, type=click.Path(path_type=str))
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def check(path: str | None, config_path: str, as_json: bool) -> None:
    """Every problem of every file: its line, and what to write.

    PATH is a directory or its sparkd.yaml, as with --config. Needs no daemon and touches no node.

    \b
    sparkd config check
    sparkd config check ./config
    """
    from os.path import isfile
    from pathlib import Path

    from sparkd.base.errors import ConfigError
    from sparkd.settings import check as find_problems
    from sparkd.settings import load
    from sparkd.settings.files import DEPLOYMENTS

    where = Path(path or config_path)
    if isfile(where) and where.parent.name == DEPLOYMENTS:
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


@config.command()
@click.option("--deployment", is_flag=True, help="Of a deployment file, not of sparkd.yaml.")
def schema(deployment: bool) -> None:
    """JSON Schema of sparkd.yaml, for editors: keys and meanings.

    An editor with a YAML language server reads it where the first line of the file names it:
    # yaml-language-server: $schema=PATH-OR-URL

    \b
    sparkd config schema > schema/sparkd.json
    sparkd config schema --deployment > schema/deployment.json
    """
    from sparkd.settings.schema import cluster_schema, deployment_schema

    click.echo(json.dumps(deployment_schema() if deployment else cluster_schema(), indent=2))


@cli.command()
@click.argument("deployment", required=False, shell_complete=complete_deployments)
@click.option("--rank", type=Whole(min=0), metavar="N", shell_complete=complete_ranks, help="Only this rank.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["docker", "json", "script"]),
    default="docker",
    show_default=True,
    help="A docker command line, the values as JSON, or a shell script.",
)
@config_option
def render(deployment: str | None, rank: int | None, form: str, config_path: str) -> None:
    """What would run: argv, environment and container of every rank.

    Needs no daemon. Secrets are shown as the files they come from. Owner and generation are the running daemon's where
    it answers. DEPLOYMENT may be left out where there is exactly one.

    \b
    sparkd render ds4-flash --rank 1
    sparkd render ds4-flash --format json
    """
    click.get_current_context().exit(ending(lambda: _render(deployment, rank, form, config_path), as_json=False))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def version(as_json: bool) -> None:
    """The version of this command; the daemon's is in its status.

    \b
    sparkd version --json
    """
    click.echo(json.dumps({"schema": 1, "version": __version__}) if as_json else f"sparkd {__version__}")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes the Tab key know sparkd's commands and names.

    Commands and options, deployments (of `render` from the files, else from the daemon), nodes, ranks.

    \b
    sparkd completion bash > /etc/bash_completion.d/sparkd
    sparkd completion zsh > /usr/local/share/zsh/site-functions/_sparkd
    sparkd completion fish > ~/.config/fish/completions/sparkd.fish

    For this shell only, in bash: eval "$(sparkd completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the choice above
    click.echo(kind(cli, {}, "sparkd", "_SPARKD_COMPLETE").source())


cli.add_command(check_nodes)
cli.add_command(compare)
cli.add_command(ctl)
cli.add_command(demo)


def _render(name: str | None, rank: int | None, form: str, config_path: str) -> int:
    from pathlib import Path

    from sparkd import render as forms
    from sparkd.base.errors import ConfigError
    from sparkd.cli.rank_preview import specs

    try:
        found = specs(Path(config_path), name, rank)
    except ConfigError as error:
        _complain(error.problems)
        return USAGE
    if form == "json":
        click.echo(json.dumps(forms.as_json(found), indent=2))
        return 0
    write = forms.as_docker if form == "docker" else forms.as_script
    for spec in found:
        if form == "docker":
            click.echo(f"# rank {spec.rank} on {spec.node}")
        click.echo(write(spec).rstrip("\n"))
        if spec is not found[-1]:
            click.echo()
    return 0


def _problem(problem: Problem) -> dict[str, object]:
    return {
        "file": problem.file,
        "line": problem.line or None,
        "path": problem.path,
        "text": problem.text,
        "fix": problem.fix,
    }


def _complain(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
    click.echo(f"{count(len(problems), 'problem')} in the configuration", err=True)


def main() -> None:
    printable_output()
    sys.exit(ending(lambda: int(cli(prog_name="sparkd")), as_json=False))  # help is written before any command runs
