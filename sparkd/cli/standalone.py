"""A configuration -> one look at its nodes and one run of the checks, as the daemon would make them, without a daemon."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import structlog

from sparkd.background.checks_runner import Checker
from sparkd.background.parser_interview import Asking
from sparkd.base import clock
from sparkd.base.errors import SparkdError
from sparkd.checks.shared.report import report
from sparkd.daemon.links import Connections
from sparkd.daemon.reach import reaching
from sparkd.decide.where_to_ask import where
from sparkd.journal.owner import owner_id
from sparkd.model.config import Config, Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.observe import Observer
from sparkd.observe.survey import Surveyor

CONNECT_S = 12.0
"""An SSH connection has 10 s of its own; a node that took longer is reported as unread."""
AGAIN_S = 0.2


class NotOurs(SparkdError):
    """The owner id, by which the node services know this sparkd, cannot be read or kept."""


def check(config: Config, config_path: Path, deployments: tuple[Deployment, ...]) -> list[dict[str, Any]]:
    """The reports of these deployments. Raises NotOurs; a node that cannot be reached makes its rows `unknown`."""
    _only_the_report()
    owner = _owner(Path(config.cluster.paths.state))
    return anyio.run(_check, config, config_path, deployments, owner)


def _only_the_report() -> None:
    """A node that cannot be reached is in its rows, in words; the log's line of it would stand above them a second time."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _owner(state: Path) -> str:
    """The daemon's, or the one it will have: made here it must be the daemon's to read. Before its first start there is
    no folder either; systemd gives one made here to the daemon's user (StateDirectory=)."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = owner_id(state / "owner", None)
        if os.geteuid() == 0:
            folder = state.stat()
            os.chown(state / "owner", folder.st_uid, folder.st_gid)
        return owner
    except OSError as error:
        why = f"{state}/owner: {error.strerror}"
        raise NotOurs(
            f"the nodes know sparkd by an id that cannot be read ({why}); run this as root or sparkd"
        ) from None


async def _check(
    config: Config, config_path: Path, deployments: tuple[Deployment, ...], owner: str
) -> list[dict[str, Any]]:
    # Sockets of the daemon itself are in another folder, so both may run.
    with TemporaryDirectory(prefix="sparkd-") as run_dir:
        async with anyio.create_task_group() as group:
            changed = _Changed()
            connections = Connections(reaching(Path(run_dir), config_path), owner, changed, group)
            await connections.follow(config.cluster.nodes)
            seen = await _look(config, connections, deployments, changed)
            asking = Asking(connections.access, owner, Path(config.cluster.paths.state))
            await _ask(asking, deployments, seen)
            checker = Checker(Surveyor(connections.access, owner), asking, owner, changed)
            state, wall = State(phase=Phase.PRECHECK), clock.wall()
            reports = [
                report(one.name, await checker.check(config.cluster, one, state, seen), wall) for one in deployments
            ]
            await connections.aclose()
            group.cancel_scope.cancel()
    return reports


async def _ask(asking: Asking, deployments: tuple[Deployment, ...], seen: Snapshot) -> None:
    """Asks the engines now, since no daemon will later. Not on nodes where ranks run: these may be just starting."""
    idle = frozenset(node for node, view in seen.nodes.items() if not any(one.alive for one in view.ranks))
    for one in deployments:
        if (node := where(one, idle, seen.nodes)) is not None:
            await asking.ask(one, node)


async def _look(
    config: Config, connections: Connections, deployments: tuple[Deployment, ...], changed: _Changed
) -> Snapshot:
    """One look once every node that answers at all has been connected."""
    observer = Observer(config.cluster, connections.access, connections.owner)
    states = {one.name: State(phase=Phase.PRECHECK) for one in deployments}
    deadline = clock.now() + CONNECT_S
    while True:
        seen = await observer.look(list(deployments), states)
        remote = [view for name, view in seen.nodes.items() if not config.cluster.nodes[name].is_local]
        waiting = [one for one in remote if isinstance(one.boot, Unknown) and one.boot.code == "unreachable"]
        if not waiting or clock.now() > deadline:
            return seen
        with anyio.move_on_after(AGAIN_S):
            await changed.wait()


@dataclass(slots=True)
class _Changed:
    """Set when a connection has come or gone."""

    event: anyio.Event | None = None

    def __call__(self) -> None:
        if self.event is not None:
            self.event.set()

    async def wait(self) -> None:
        self.event = anyio.Event()
        await self.event.wait()
