"""`sparkd run`: configuration to a running daemon. Wires the parts together, listens to signals, speaks to systemd."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog

import sparkd
from sparkd import api, hosts, http, metrics, notify, settings, systemd
from sparkd.errors import DockerStopped
from sparkd.hosts.client import NodeClient
from sparkd.journal import AlreadyOwned, Journal, JournalError
from sparkd.model.config import Node
from sparkd.observe import NodeAccess
from sparkd.runtimes.docker import DockerRuntime
from sparkd.service import Service
from sparkd.settings import Config
from sparkd.supervisor import Supervisor

log = structlog.get_logger("sparkd")

FAILED, OWNED = 1, 7
"""Exit codes: the state cannot be read; another sparkd owns it."""
CLOSE_S = 3.0
"""For closing connections at the end; a dead peer must not delay the end of the daemon."""


Reach = Callable[[Node, str, Callable[[], None]], tuple[hosts.Host, NodeAccess]]
"""(node, our owner id, wake) -> how the node is reached. The demo has another one; all else is the same."""


def run(config_path: Path) -> int:
    """Run until SIGTERM. Returns the exit code; raises ConfigError for a sparkd.yaml that cannot be used."""
    config = settings.load(config_path)
    run_dir = Path(config.cluster.paths.run)
    known_hosts = (config_path if config_path.is_dir() else config_path.parent) / "known_hosts"

    def reach(node: Node, owner: str, wake: Callable[[], None]) -> tuple[hosts.Host, NodeAccess]:
        host = hosts.make(node, run_dir / "nodes", known_hosts, changed=wake)
        return host, _access(node, host, owner)

    return serve(config, reach)


def serve(config: Config, reach: Reach) -> int:
    """The daemon with this configuration and these nodes, until SIGTERM. Returns the exit code."""
    _log_for_journald()
    journal = Journal(Path(config.cluster.paths.state))
    try:
        journal.lock()
    except AlreadyOwned as error:
        print(f"sparkd: {error}", file=sys.stderr)
        return OWNED
    try:
        return anyio.run(_main, config, reach, journal)
    except* JournalError as errors:
        # What people wanted is unknown, and unknown must not become a default: no supervision is better than a wrong one.
        print(f"sparkd: {errors.exceptions[0]}", file=sys.stderr)
    return FAILED


async def _main(config: Config, reach: Reach, journal: Journal) -> int:
    await journal.open()
    owner = await journal.owner()
    cluster, counters = config.cluster, metrics.Counters()
    async with anyio.create_task_group() as group:
        wake = _Wake()
        reached = {name: reach(node, owner, wake) for name, node in cluster.nodes.items()}
        access = {name: node for name, (_, node) in reached.items()}
        supervisor = Supervisor(
            cluster=cluster,
            deployments={deployment.name: deployment for deployment in config.deployments},
            broken=config.broken,
            journal=journal,
            access=access,
            owner=owner,
            captures=Path(cluster.paths.state) / "captures",
            counters=counters,
        )
        wake.target = supervisor.wake
        await supervisor.load()
        notifier = notify.Notifier(cluster.notify, counters)
        service = Service(supervisor, notifier)
        await service.learn()
        supervisor.published = _Systemd(service).published
        async with _closing(access, journal, notifier), api.serve(service, cluster, counters):
            for host, node in reached.values():
                group.start_soon(host.run)
                group.start_soon(node.docker.events, supervisor.wake)
            group.start_soon(notifier.run)
            group.start_soon(supervisor.run)
            await _until_told_to_end()
            systemd.notify(STOPPING="1", STATUS="ending; the engines go on")
            group.cancel_scope.cancel()
    return 0


@dataclass(slots=True)
class _Wake:
    """Wakes the loop once there is one."""

    target: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.target()


def _access(node: Node, host: hosts.Host, owner: str) -> NodeAccess:
    def socket() -> Path:
        # Only a Docker that was seen running is dialled: a connection would wake one that a person stopped.
        if access.docker_runs is not True:
            raise DockerStopped(node.name, "Docker was not seen running there")
        return host.docker_socket()

    access = NodeAccess(
        client=NodeClient(host, owner),
        docker=DockerRuntime(node.name, socket),
    )
    return access


@asynccontextmanager
async def _closing(access: dict[str, NodeAccess], journal: Journal, notifier: notify.Notifier) -> AsyncIterator[None]:
    try:
        yield
    finally:
        notifier.close()
        with anyio.move_on_after(CLOSE_S, shield=True):
            for node in access.values():
                await node.docker.aclose()
                await node.client.aclose()
            await http.aclose()
            await journal.aclose()


@dataclass(slots=True)
class _Systemd:
    """After every cycle: publish, tell systemd what was decided, and feed its watchdog: from the loop, never from a timer."""

    service: Service
    ready: bool = False
    said: str = ""

    async def published(self, supervisor: Supervisor) -> None:
        shown = await self.service.publish()
        fields = {"WATCHDOG": "1"}
        status = str(shown["verdict"])
        if status != self.said:
            fields["STATUS"] = self.said = status
        if not self.ready and supervisor.snapshot is not None:
            # Ready after the first look, which has deadlines of its own: a mute node delays it by no more than those.
            fields["READY"] = "1"
            self.ready = True
            log.info("first look done", cluster=supervisor.cluster.cluster, version=sparkd.__version__)
        systemd.notify(**fields)


async def _until_told_to_end() -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for number in received:
            if number is signal.SIGHUP:
                log.info("SIGHUP ignored: restart sparkd to read its configuration again; engines go on")
                continue
            log.info("ending", signal=number.name)
            return


def _log_for_journald() -> None:
    """logfmt on stderr; journald adds the time."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["level", "event"], bool_as_flag=False),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
