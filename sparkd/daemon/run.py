"""`sparkd run`: configuration to a running daemon. Wires the parts together, listens to signals, speaks to systemd."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import structlog

import sparkd
from sparkd import api, http
from sparkd.api.listen import SocketBusy
from sparkd.base import redact
from sparkd.base.guarded import guarded
from sparkd.daemon import sd_notify
from sparkd.daemon.links import CLOSE_S, Connections, Reach
from sparkd.daemon.node_wishes import NodeWishes
from sparkd.daemon.reach import reaching
from sparkd.daemon.reload import Read, Reloading
from sparkd.daemon.reload_triggers import ChangedFiles, on_signals
from sparkd.daemon.service import Service
from sparkd.daemon.showing import Showing
from sparkd.daemon.wishes import Wishes
from sparkd.fleet import load_config
from sparkd.fleet.ledger import Ledger
from sparkd.journal import AlreadyOwned, Journal, JournalError
from sparkd.loop.supervisor import Supervisor
from sparkd.loop.upkeep import Upkeeping
from sparkd.model.config import Config
from sparkd.reporting import metrics, notices

log = structlog.get_logger("sparkd")

FAILED, OWNED = 1, 7
"""Exit codes: the state cannot be read; another sparkd owns it."""


def run(config_path: Path) -> int:
    """Run until SIGTERM. Returns the exit code; raises ConfigError for a sparkd.yaml that cannot be used."""
    try:
        config = anyio.run(load_config.load, config_path)
    except load_config.NotLoaded as error:
        print(f"sparkd: {error}", file=sys.stderr)
        return FAILED
    return serve(config, reaching(Path(config.cluster.paths.run), config_path), config_path)


def serve(config: Config, reach: Reach, config_path: Path | None = None) -> int:
    """The daemon with this configuration and these nodes, until SIGTERM. Returns the exit code.

    `config_path` is where it is read again; without one it cannot be.
    """
    _log_for_journald()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is listened to: a reload that comes early must not end it
    journal = Journal(Path(config.cluster.paths.state))
    try:
        journal.lock()
    except AlreadyOwned as error:
        print(f"sparkd: {error}", file=sys.stderr)
        return OWNED
    code = FAILED
    try:
        code = anyio.run(_main, config, reach, journal, config_path)
    except* SocketBusy as busy:
        print(f"sparkd: {_first(busy)}", file=sys.stderr)
        code = OWNED
    except* JournalError as errors:
        # What people wanted is unknown, and unknown must not become a default: no supervision is better than a wrong one.
        print(f"sparkd: {_first(errors)}", file=sys.stderr)
    return code


def _first(error: BaseException) -> BaseException:
    """The first of a group, however many task groups have packed it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _main(config: Config, reach: Reach, journal: Journal, config_path: Path | None) -> int:
    await journal.open()
    cluster, counters, wake = config.cluster, metrics.Counters(), _Wake()
    async with anyio.create_task_group() as group:
        connections = Connections(reach, await journal.owner(), wake, group)
        notifier = notices.Notifier(cluster.notify, counters)
        async with _closing(connections, journal, notifier):
            await connections.follow(cluster.nodes)
            supervisor = Supervisor(
                ledger=Ledger(config, journal, counters),
                journal=journal,
                access=connections.access,
                owner=connections.owner,
                captures=Path(cluster.paths.state) / "captures",
                counters=counters,
            )
            wake.target = supervisor.wake
            await supervisor.ledger.load()
            await supervisor.drift_watch.count_on()
            read = None if config_path is None else partial(load_config.load, config_path)
            service = serviced(supervisor, read, connections, notifier)
            await service.showing.learn()
            service.nodes.upkeeping.group = group
            watch = None if config_path is None else ChangedFiles(config_path, service, group)
            supervisor.published = _Published(service, watch).after_cycle
            async with api.serve(service, cluster, counters):
                group.start_soon(notifier.run)
                group.start_soon(supervisor.run)
                await _until_told_to_end(service)
                sd_notify.notify(STOPPING="1", STATUS="ending; the engines go on")
                with anyio.move_on_after(CLOSE_S):
                    await supervisor.checker.asking.aclose()
                group.cancel_scope.cancel()
    return 0


def serviced(
    supervisor: Supervisor, read: Read | None, connections: Connections, notifier: notices.Notifier
) -> Service:
    """The parts that people are answered by, each with what it uses of the loop. `read`: the configuration, once more."""
    ledger, journal, drift_watch = supervisor.ledger, supervisor.journal, supervisor.drift_watch
    reloading = Reloading(read, supervisor, supervisor.chronicle.record, connections, notifier)
    showing = Showing(supervisor, ledger, journal, drift_watch, reloading, notifier)
    supervisor.chronicle.listener = showing.publish_event
    upkeeping = Upkeeping(ledger, supervisor.chronicle.record, supervisor.wake)
    return Service(
        loop=supervisor,
        ledger=ledger,
        journal=journal,
        checker=supervisor.checker,
        drift_watch=drift_watch,
        reloading=reloading,
        showing=showing,
        wishes=Wishes(ledger, supervisor.want),
        nodes=NodeWishes(upkeeping, lambda: supervisor.snapshot),
        saved=supervisor.captures,
    )


@dataclass(slots=True)
class _Wake:
    """Wakes the loop once there is one."""

    target: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.target()


@asynccontextmanager
async def _closing(connections: Connections, journal: Journal, notifier: notices.Notifier) -> AsyncIterator[None]:
    try:
        yield
    finally:
        notifier.close()
        with anyio.move_on_after(CLOSE_S, shield=True):
            await connections.aclose()
            await http.aclose()
            await journal.aclose()


@dataclass(slots=True)
class _Published:
    """After every cycle: publish, tell systemd what was decided, and feed its watchdog: from the loop, never from a timer."""

    service: Service
    watch: ChangedFiles | None
    ready: bool = False
    said: str = ""

    async def after_cycle(self) -> None:
        loop, fields = self.service.loop, {"WATCHDOG": "1"}
        await guarded(partial(self.service.nodes.upkeeping.look, loop.snapshot), "looking after nodes")
        # The loop lives, whether or not what it sees can be shown: systemd must not restart it for that.
        shown = await guarded(self.service.showing.publish, "publishing")
        if shown is not None and shown["verdict"] != self.said:
            fields["STATUS"] = self.said = str(shown["verdict"])
        if not self.ready and loop.snapshot is not None:
            # Ready after the first look, which has deadlines of its own: a mute node delays it by no more than those.
            fields["READY"] = "1"
            self.ready = True
            _collect_little_by_little()
            log.info("first look done", cluster=loop.cluster.cluster, version=sparkd.__version__)
        sd_notify.notify(**fields)
        if self.watch is not None and loop.cluster.reload.watch:
            await self.watch.look()


def _collect_little_by_little() -> None:
    """Collecting garbage is one step of the loop. Objects that exist once the daemon is set up stay, and are not searched each
    time (40 ms). It is done five times as often, since connections soon leave a lot of garbage behind (120 ms)."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 2)


async def _until_told_to_end(service: Service) -> None:
    asked, asks = anyio.create_memory_object_stream[None](1)
    with asked, asks, anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async with anyio.create_task_group() as group:
            group.start_soon(on_signals, asks, service)
            async for number in received:
                if number is not signal.SIGHUP:
                    log.info("ending", signal=number.name)
                    group.cancel_scope.cancel()
                    return
                with suppress(anyio.WouldBlock):  # one waits already, and will read what is there by then
                    asked.send_nowait(None)


def _log_for_journald() -> None:
    """logfmt on stderr; journald adds the time."""
    sys.excepthook = redact.last_words
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            redact.log_line,
            structlog.processors.LogfmtRenderer(key_order=["level", "event"], bool_as_flag=False),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
