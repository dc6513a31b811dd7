"""Turns what was typed as a name into the deployment that is meant, and a typo into a suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkd.ctl.answers import Deployment, Node, Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import CtlError, Usage
from sparkd.ctl.reading import read

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


def pick_node(status: Status, name: str) -> Node:
    """The node called `name`; raises Usage with the names there are."""
    found = status.node(name)
    if found is None:
        names = [node.name for node in status.nodes]
        raise Usage(f"there is no node {name!r} in {status.cluster}", suggestion(name, names))
    return found


def suggestion(typed: str, names: Sequence[str]) -> str:
    from sparkd.base.did_you_mean import closest  # only after a typo

    near = closest(typed, names)
    return f"did you mean {near}?" if near else f"there is: {', '.join(names)}"


def complete_deployments(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Names for the shell, from the daemon; none where it does not answer."""
    status = _status(ctx)
    return [one.name for one in status.deployments if one.name.startswith(typed)] if status else []


def complete_nodes(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    status = _status(ctx)
    return [node.name for node in status.nodes if node.name.startswith(typed)] if status else []


def complete_ranks(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Of the deployment named before, or of any."""
    status, name = _status(ctx), ctx.params.get("name")
    known = [one for one in status.deployments if name in (None, one.name)] if status else []
    ranks = sorted({rank.rank for one in known for rank in one.ranks})
    return [str(rank) for rank in ranks if str(rank).startswith(typed)]


def complete_saved(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Generations of which logs were saved."""
    return _generations(ctx, typed, "captures", "captures")


def complete_recorded(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Generations that are recorded as known-good."""
    return _generations(ctx, typed, "known-good", "known_good")


def complete_sides(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """What `ctl drift --against` takes."""
    return [one for one in ("known-good", "wanted") if one.startswith(typed)] + complete_recorded(ctx, param, typed)


def _generations(ctx: click.Context, typed: str, path: str, key: str) -> list[str]:
    """Of the deployment named before, or of the only one."""
    try:
        api = Api(ctx.params["socket"], COMPLETION_S)
        name = pick(read(Status, api.get("/api/v1/status")), ctx.params.get("name")).name
        rows = api.get(f"/api/v1/deployments/{quote(name)}/{path}").get(key)
    except CtlError:
        return []  # as below
    numbers = (str(row.get("generation")) for row in rows or () if isinstance(row, dict))
    return [number for number in dict.fromkeys(numbers) if number.startswith(typed)]


def _status(ctx: click.Context) -> Status | None:
    try:
        return read(Status, Api(ctx.params["socket"], COMPLETION_S).get("/api/v1/status"))
    except CtlError:
        return None  # a message here would land in the middle of the line that is being typed
