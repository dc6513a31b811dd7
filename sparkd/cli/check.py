"""`sparkd check`: a configuration turned into what its checks find, without a daemon."""

from __future__ import annotations

import click

from sparkd.cli.tab_completion import complete_deployments
from sparkd.ctl.ending import ending
from sparkd.ctl.errors import CtlError, Usage
from sparkd.ctl.groups import config_option


class NotChecked(CtlError):
    """The nodes were not asked at all."""


@click.command("check")
@click.argument("deployment", required=False, shell_complete=complete_deployments)
@config_option
@click.option("--list", "listing", is_flag=True, help="What is checked, and how much it matters.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def check(deployment: str | None, config_path: str, listing: bool, as_json: bool) -> None:
    """Run the checks without a daemon: would a start work?

    Reads the nodes as the daemon would, and changes nothing. Needs the rights of root, or of the user sparkd. Exits 0
    when nothing failed, 4 when something did or could not be read.

    \b
    sparkd check
    sparkd check ds4-flash --json
    sparkd check --list
    """
    work = _list if listing else _check
    click.get_current_context().exit(ending(lambda: work(deployment, config_path, as_json), as_json))


def _list(deployment: str | None, config_path: str, as_json: bool) -> int:
    from sparkd.checks import all_checks
    from sparkd.checks.shared.report import listing
    from sparkd.ctl.check import show_list

    return show_list(listing(all_checks()), as_json)


def _check(deployment: str | None, config_path: str, as_json: bool) -> int:
    from pathlib import Path

    from sparkd.base.errors import ConfigError
    from sparkd.cli.rank_preview import chosen
    from sparkd.cli.standalone import NotOurs
    from sparkd.cli.standalone import check as check_nodes
    from sparkd.ctl.check import show
    from sparkd.settings import load

    where = Path(config_path)
    try:
        config = load(where)
        found = (chosen(config, deployment),) if deployment or len(config.deployments) < 2 else config.deployments
        return show(check_nodes(config, where, found), as_json)
    except ConfigError as error:
        said = "\n".join(map(str, error.problems))
        raise Usage(said, "correct it, then: sparkd config check") from None
    except NotOurs as error:
        raise NotChecked(str(error), "sudo sparkd check") from None
