"""A person's or systemd's word -> the configuration read again: all or nothing for sparkd.yaml, file by file for deployments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import anyio

from sparkd.base import clock
from sparkd.base.errors import ConfigError, Problem
from sparkd.daemon.links import Connections
from sparkd.fleet.ledger import Ledger
from sparkd.fleet.load_config import NotLoaded
from sparkd.fleet.roster import Roster
from sparkd.journal import Event
from sparkd.model.config import Cluster, Config, Deployment
from sparkd.model.view import Change, Pending
from sparkd.reporting import config_changes
from sparkd.reporting.notices import Notifier

Read = Callable[[], Awaitable[Config]]

FIXED = ("paths", "http")
"""Sections that are read at the start only: the listeners are open and the state is locked."""
RESTART = "put it back, or restart sparkd for it (systemctl restart sparkd): engines go on"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a reload means for one deployment. `what`: added removed kept broken pending changed."""

    name: str
    what: str
    sentence: str
    pending: Pending = field(default_factory=Pending)


@dataclass(frozen=True, slots=True)
class Reloaded:
    cluster: tuple[Change, ...]
    deployments: tuple[Entry, ...]

    @property
    def sentence(self) -> str:
        parts = [f"{one.name} {one.sentence}" for one in self.deployments]
        if self.cluster:
            parts.insert(0, f"sparkd.yaml: {config_changes.said(self.cluster)}")
        return "; ".join(parts) or "nothing has changed"

    def as_json(self) -> dict[str, Any]:
        entries = [
            {"name": one.name, "what": one.what, "sentence": one.sentence, **config_changes.as_json(one.pending)}
            for one in self.deployments
        ]
        return {"sentence": self.sentence, "cluster": [asdict(one) for one in self.cluster], "deployments": entries}


class Loop(Protocol):
    """Who goes by the configuration."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def between_looks(self) -> anyio.Lock: ...

    async def reload(self, config: Config) -> None: ...


@dataclass(slots=True)
class Reloading:
    """Reads and applies, one at a time. `read` is None where the configuration does not come from files."""

    read: Read | None
    loop: Loop
    record: Callable[[Event], Awaitable[None]]
    """Journals what concerns no deployment alone."""
    connections: Connections
    notifier: Notifier
    problems: tuple[str, ...] = ()
    """Why the configuration that was last read was refused."""
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def reload(self, by: str, message: str) -> Reloaded:
        """Raises ConfigError for a sparkd.yaml that cannot be used, or not without a restart, and NotLoaded; then nothing
        was changed. Both outcomes are journalled."""
        async with self._one:
            try:
                return await self._reload(by, message)
            except (ConfigError, NotLoaded) as error:
                self.problems = tuple(str(error).splitlines())
                await self._journal("reload-refused", f"reload refused: {self.problems[0]}", by, message, {})
                raise

    async def _reload(self, by: str, message: str) -> Reloaded:
        if self.read is None:
            raise NotLoaded("the demo's configuration does not come from files: there is nothing to read again")
        config = await self.read()
        # Once begun it is finished: half a configuration is none.
        with anyio.CancelScope(shield=True):
            async with self.loop.between_looks:
                reloaded = await self._apply(config)
            self.problems = ()
            details = reloaded.as_json()
            await self._journal("reloaded", f"configuration reloaded: {reloaded.sentence}", by, message, details)
        return reloaded

    async def _apply(self, config: Config) -> Reloaded:
        ledger = self.loop.ledger
        before, known = ledger.config.cluster, ledger.roster
        problems = tuple(refusals(before, config.cluster, config.files[0], ledger.nodes_in_use()))
        if problems:
            raise ConfigError(problems)
        await self.connections.follow(config.cluster.nodes)
        await self.loop.reload(config)
        if config.cluster.notify != before.notify:
            self.notifier.configure(config.cluster.notify)
        pending = {name: ledger.pending(name) for name in ledger.roster.wanted}
        return Reloaded(
            config_changes.of_clusters(before, config.cluster), tuple(entries(known, ledger.roster, pending))
        )

    async def _journal(self, kind: str, sentence: str, by: str, message: str, data: Mapping[str, Any]) -> None:
        event = Event(at=clock.wall(), kind=kind, sentence=sentence, reason=kind, by=by, message=message, data=data)
        await self.record(event)


def refusals(before: Cluster, after: Cluster, file: str, in_use: Mapping[str, str]) -> Iterator[Problem]:
    """What of sparkd.yaml cannot be changed while sparkd runs, or while a group runs. `in_use`: node -> deployment."""
    for change in config_changes.of_clusters(before, after):
        if change.key.partition(".")[0] in FIXED:
            text = f"cannot be changed from {change.before} to {change.after} while sparkd runs"
            yield Problem(file, 0, change.key, text, RESTART)
    for name, deployment in in_use.items():
        was, now = before.nodes.get(name), after.nodes.get(name)
        stop = f"first: sparkd ctl stop {deployment}"
        if was is not None and now is None:
            yield Problem(file, 0, f"nodes.{name}", f"cannot be removed while {deployment} runs there", stop)
        elif was is not None and now is not None and was.data_address != now.data_address:
            text = f"cannot be changed while {deployment} runs there"
            yield Problem(file, 0, f"nodes.{name}.data_address", text, stop)


def entries(before: Roster, after: Roster, pending: Mapping[str, Pending]) -> Iterator[Entry]:
    """What changed, deployment by deployment. `pending` is that of `after`, by name."""
    was_broken, broken = ({one.name: one for one in roster.broken} for roster in (before, after))
    for name in dict.fromkeys((*before.wanted, *was_broken, *after.wanted, *broken)):
        if name in broken:
            problems = Pending(problems=broken[name].problems)
            yield Entry(name, "broken", f"cannot be used: {broken[name].problems[0]}", problems)
        elif name not in after.wanted:
            yield Entry(name, "removed", "is removed")
        elif name not in before.wanted:
            how = "starts by itself" if after.wanted[name].autostart else f"is stopped until `sparkd ctl start {name}`"
            yield Entry(name, "added", f"is new and {how}")
        else:
            yield from _changed(name, before.wanted[name], after.wanted[name], pending[name])


def _changed(name: str, before: Deployment, after: Deployment, pending: Pending) -> Iterator[Entry]:
    ends = f"it goes on as it was started, until `sparkd ctl stop {name}`"
    if pending.removed:
        yield Entry(name, "kept", f"is not removed while it runs: {ends}", pending)
    elif pending.problems:
        yield Entry(name, "broken", f"cannot be used: {pending.problems[0]}; {ends}", pending)
    elif pending.changes:
        yield Entry(name, "pending", f"restart pending: {config_changes.said(pending.changes)}", pending)
    elif before.digest != after.digest:
        yield Entry(name, "changed", "is changed and starts by its new file")
    elif before != after:
        yield Entry(name, "changed", "is changed: how it is watched counts at once")
