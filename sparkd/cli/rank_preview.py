"""A configuration directory and a deployment's name -> its ranks as they would be created; needs no daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparkd.ctl.client import Api, default_socket
from sparkd.ctl.errors import CtlError, Usage
from sparkd.ctl.names import suggestion
from sparkd.render import rank_specs
from sparkd.settings import load

if TYPE_CHECKING:
    from sparkd.model.config import Config, Deployment
    from sparkd.model.rank import RankSpec

NO_OWNER = "00000000-0000-0000-0000-000000000000"
"""Shown as the owner while no daemon answers: its id is made at its first start."""

DEADLINE_S = 1.0


def specs(where: Path, name: str | None, rank: int | None) -> tuple[RankSpec, ...]:
    """The deployment's ranks, or one of them. Raises ConfigError for a bad sparkd.yaml, Usage for what is not there."""
    config = load(where)
    deployment = chosen(config, name)
    owner, generation = _identity(deployment.name)
    found = rank_specs(deployment, config.cluster.nodes, owner, generation)
    if rank is not None and rank >= len(found):
        raise Usage(f"{deployment.name} has no rank {rank}", f"its ranks: {', '.join(map(str, range(len(found))))}")
    return found if rank is None else (found[rank],)


def known(config: Config) -> dict[str, int]:
    """The names in the files, with how many ranks each has; 0 where the file cannot be used."""
    good = {one.name: len(one.nodes) for one in config.deployments}
    return good | {one.name: 0 for one in config.broken}


def chosen(config: Config, name: str | None) -> Deployment:
    """The deployment of that name, or the only one. Raises Usage."""
    names = list(known(config))
    if not names:
        raise Usage("no deployment is configured", "put a file into the deployments folder, then: sparkd config check")
    if name is None and len(names) > 1:
        raise Usage("which deployment?", f"name one of {', '.join(names)}")
    name = name or names[0]
    for broken in config.broken:
        if broken.name == name:
            raise Usage("\n".join(broken.problems), "correct the file, then: sparkd config check")
    for one in config.deployments:
        if one.name == name:
            return one
    raise Usage(f"there is no deployment {name!r}", suggestion(name, names))


def _identity(name: str) -> tuple[str, int]:
    """Owner id and generation, from the daemon where it answers."""
    from sparkd.ctl.answers import Status
    from sparkd.ctl.reading import read

    try:
        status = read(Status, Api(default_socket(), DEADLINE_S).get("/api/v1/status"))
    except CtlError:
        return NO_OWNER, 1
    running = next((one.generation for one in status.deployments if one.name == name), None)
    return status.daemon.owner or NO_OWNER, max(1, running or 1)
