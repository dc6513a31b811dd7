"""The configuration files -> names that the Tab key offers where no daemon is asked."""

from __future__ import annotations

import click


def _names(ctx: click.Context) -> dict[str, int]:
    """Deployment -> how many ranks it has, from the files; nothing where they cannot be read."""
    from pathlib import Path

    from sparkd.base.errors import ConfigError
    from sparkd.cli.rank_preview import known
    from sparkd.settings import load

    try:
        return known(load(Path(ctx.params["config_path"])))
    except ConfigError:
        return {}  # a message here would land in the middle of the line that is being typed


def complete_deployments(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    return [name for name in _names(ctx) if name.startswith(typed)]


def complete_ranks(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    named = ctx.params.get("deployment")
    most = max((count for name, count in _names(ctx).items() if named in (None, name)), default=0)
    return [str(rank) for rank in range(most) if str(rank).startswith(typed)]
