"""Turns what was typed as a name into the deployment that is meant, and a typo into a suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkd.ctl.answers import Deployment, Status, read
from sparkd.ctl.client import Api
from sparkd.ctl.errors import CtlError, Usage

if TYPE_CHECKING:
    import click

COMPLETION_S = 0.3
"""Longer than this nobody waits for a Tab."""


def pick(status: Status, name: str | None) -> Deployment:
    """The deployment called `name`, or the only one; raises Usage with the names there are."""
    names = [deployment.name for deployment in status.deployments]
    if name is None and len(names) == 1:
        return status.deployments[0]
    if not names:
        raise Usage("no deployment is configured", "put a file into the deployments folder, then: sparkd config check")
    if name is None:
        raise Usage("which deployment?", f"name one of {', '.join(names)}")
    if name not in names:
        raise Usage(f"there is no deployment {name!r}", suggestion(name, names))
    return status.deployments[names.index(name)]


def suggestion(typed: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches  # only after a typo

    close = get_close_matches(typed, names, n=1)
    return f"did you mean {close[0]}?" if close else f"there is: {', '.join(names)}"


def complete_deployments(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Names for the shell, from the daemon; none where it does not answer."""
    status = _status(ctx)
    return [one.name for one in status.deployments if one.name.startswith(typed)] if status else []


def complete_nodes(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    status = _status(ctx)
    return [node.name for node in status.nodes if node.name.startswith(typed)] if status else []


def _status(ctx: click.Context) -> Status | None:
    try:
        return read(Status, Api(ctx.params["socket"], COMPLETION_S).get("/api/v1/status"))
    except CtlError:
        return None  # a message here would land in the middle of the line that is being typed
