"""The real client against the real HTTP application on a Unix socket; only the daemon behind it is scripted."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from sparkd.api import SOCKET, Conflict, Drifts, Hub, NotFound, Operation, Unwritable, serve
from sparkd.journal import Event, as_json
from sparkd.model.config import Cluster, Http, Paths
from sparkd.model.decision import Phase
from sparkd.model.outage import Outage
from sparkd.model.view import ClusterView
from sparkd.reporting import outage_list as outages
from sparkd.reporting.copies import Shown
from sparkd.reporting.metrics import Counters
from sparkd.reporting.status import status

from ..api.api_world import RecordedNodes
from .ctl_views import NODES, NOW, WALL, node, unread, view

BOTH = (node("spark1", 0), node("spark2", 1))
SERVING, STARTING = view(Phase.SERVE, *BOTH), view(Phase.START_HEAD, *BOTH)
ME = pwd.getpwuid(os.getuid()).pw_name


def happened(number: int, sentence: str) -> Event:
    return Event(
        at=WALL - 60 + number,
        id=number,
        kind="serving",
        deployment="ds4-flash",
        generation=14,
        sentence=sentence,
        by="milo",
    )


CHECKS = {"schema": 1, "checks": [{"code": "swap", "status": "warn", "node": "spark1", "text": "3 GiB"}]}


@dataclass
class Scripted:
    """A daemon that holds one view and remembers what it was asked for."""

    now: ClusterView = SERVING
    refuse: Exception | None = None
    outcomes: list[tuple[str, str]] = field(default_factory=lambda: [("done", "serving")])
    asked: list[tuple[str, str, Operation]] = field(default_factory=list)
    events: list[Event] = field(default_factory=lambda: [happened(1, "first"), happened(2, "second")])
    hub: Hub = field(default_factory=Hub)
    nodes: RecordedNodes = field(default_factory=RecordedNodes)

    def __post_init__(self) -> None:
        self.shown = Shown(self.view)

    def view(self) -> ClusterView:
        return self.now

    async def operate(self, name: str, verb: str, operation: Operation) -> str:
        if self.refuse:
            raise self.refuse
        self.asked.append((name, verb, operation))
        return "op-1"

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        if self.refuse:
            raise self.refuse
        return {"schema": 1, "sentence": "nothing has changed", "cluster": [], "deployments": []}

    def operation(self, id: str) -> Mapping[str, Any] | None:
        state, sentence = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        self.now = SERVING if state == "done" else STARTING
        return {"operation": id, "state": state, "sentence": sentence} if id == "op-1" else None

    async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
        return [event for event in self.events if deployment in (None, event.deployment)][-limit:]

    def outages(self, name: str | None) -> Mapping[str, Any]:
        over = Outage(NOW - 1500, WALL - 1500, 13, "rebooted", "spark2 rebooted", starts=2, unread_s=60.0)
        ended = replace(over, ended=NOW - 900, ended_wall=WALL - 900, answered=14)
        return outages.listing([("ds4-flash", ended)], self.now.states, NOW, name)

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.hub.subscribe()

    async def logs(self, name: str, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        for number, text in enumerate(["loading weights", "läuft ✓"][-tail:]):
            at = f"2026-11-27T03:00:3{number}.500Z"
            yield {"at": at, "rank": number, "node": f"spark{number + 1}", "stream": "stdout", "text": text}
        if follow:
            await anyio.sleep_forever()

    def drifts(self, name: str) -> Drifts:
        raise NotFound(f"nothing is known of {name}")

    async def cleanup(self, name: str, clean: bool) -> Mapping[str, Any]:
        return {"schema": 1, "nodes": {}}

    def captures(self, name: str) -> Path:
        return Path("/nowhere") / name

    def checks(self, name: str) -> Mapping[str, Any]:
        return CHECKS

    async def check(self, name: str) -> Mapping[str, Any]:
        return CHECKS

    def why(self, name: str) -> Mapping[str, Any]:
        cause = {"class": "transient", "signature": "rank-gone", "text": "rank 1 is gone", "confidence": "likely"}
        evidence = [{"source": "sparkd", "line": None, "text": "exit code 137"}]
        about = {"sentence": "serving", "reason": "serving", "rule": "it answered a real request"}
        return {"schema": 1, "cause": {**cause, "rank": 1, "evidence": evidence, "fix": None}, "also": [], **about}


@asynccontextmanager
async def api(service: Scripted, run_dir: Path) -> AsyncIterator[Path]:
    cluster = Cluster(cluster="desk", nodes=NODES, http=Http(listen=""), paths=Paths(run=str(run_dir)))
    async with serve(service, cluster, Counters()):
        yield run_dir / SOCKET


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "sparkd", *words]


def environment(socket: Path) -> dict[str, str]:
    return {**os.environ, "SPARKD_SOCKET": str(socket), "TZ": "UTC"}


async def sparkd(socket: Path, *words: str) -> tuple[int, str, str]:
    with anyio.fail_after(30):
        done = await anyio.run_process(command(*words), env=environment(socket), check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_status_of_the_real_api(tmp_path: Path) -> None:
    service = Scripted()
    async with api(service, tmp_path) as socket:
        code, shown, _ = await sparkd(socket, "ctl", "status")
        assert code == 0
        assert shown.startswith("ds4-flash is serving.")
        _, answer, _ = await sparkd(socket, "ctl", "status", "--json")
        assert json.loads(answer) == status(SERVING)
        service.now = view(Phase.ADOPTING, node("spark1", 0), unread("spark2"))
        code, shown, _ = await sparkd(socket, "ctl", "status", "ds4-flash")
        assert code == 4
        assert "spark2 cannot be asked" in shown


async def test_a_restart_that_is_waited_for(tmp_path: Path) -> None:
    service = Scripted(outcomes=[("running", "starting"), ("running", "starting"), ("done", "serving")])
    async with api(service, tmp_path) as socket:
        code, said, progress = await sparkd(socket, "ctl", "restart", "-m", "new image", "--yes", "--wait")
    assert code == 0
    assert service.asked == [("ds4-flash", "restart", Operation(message="new image", by=ME))]
    assert "starting the head, weights, about 30 s to go" in progress
    assert said.startswith("ds4-flash is serving.")


async def test_a_start_that_fails(tmp_path: Path) -> None:
    service = Scripted(outcomes=[("failed", "held: port 8000 is taken")])
    async with api(service, tmp_path) as socket:
        code, said, _ = await sparkd(socket, "ctl", "start", "--wait")
    assert code == 1
    assert "held: port 8000 is taken" in said


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Conflict("it is paused: sparkd acts on nothing", "resume it first"), "resume it first"),
        (Unwritable("the wish could not be written down", "free the disk"), "free the disk"),
    ],
)
async def test_a_refusal_of_the_real_api(refusal: Exception, said: str, tmp_path: Path) -> None:
    async with api(Scripted(refuse=refusal), tmp_path) as socket:
        code, _, error = await sparkd(socket, "ctl", "start")
    assert code == 1
    assert said in error


async def test_assume_lost_reaches_the_daemon(tmp_path: Path) -> None:
    service = Scripted()
    async with api(service, tmp_path) as socket:
        code, _, _ = await sparkd(socket, "ctl", "stop", "--assume-lost", "spark2", "--yes")
    assert code == 0
    assert service.asked[0][2].options == {"assume_lost": ("spark2",)}


async def test_reading_verbs_over_the_real_api(tmp_path: Path) -> None:
    async with api(Scripted(), tmp_path) as socket:
        _, why, _ = await sparkd(socket, "ctl", "why")
        assert "rank 1 is gone (transient, rank-gone, likely)" in why
        assert "it answered a real request [serving]" in why
        code, checks, _ = await sparkd(socket, "ctl", "check")
        assert code == 0
        assert "warn     swap on spark1" in checks
        _, outages_, _ = await sparkd(socket, "ctl", "history", "--outages")
        assert "spark2 rebooted" in outages_
        assert "goes on: rank 1 is gone (rank-gone)" not in outages_
        _, history, _ = await sparkd(socket, "ctl", "history", "--limit", "1")
        assert "second (by milo)" in history
        assert "first" not in history
        _, logs, _ = await sparkd(socket, "ctl", "logs")
        assert logs == "03:00:30.500 0@spark1 loading weights\n03:00:31.500 1@spark2 läuft ✓\n"
        _, nodes, _ = await sparkd(socket, "ctl", "nodes")
        assert "spark2  ok" in nodes


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("ctl", "logs", "-f"), "läuft"),
        (("ctl", "history", "-f"), "a late one"),
        (("ctl", "watch", "--json"), "a late one"),
        (("ctl", "watch"), "is starting"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
async def test_following_over_the_real_api(words: tuple[str, ...], last: str, tmp_path: Path) -> None:
    service = Scripted()
    text = ""
    with anyio.fail_after(30):
        async with (
            api(service, tmp_path) as socket,
            await anyio.open_process(command(*words), env=environment(socket), stderr=None) as process,
        ):
            assert process.stdout
            async for data in process.stdout:
                text += data.decode()
                if last in text:
                    process.send_signal(signal.SIGINT)
                elif "a late one" not in text:
                    service.now = replace(STARTING, at=NOW + 1)
                    service.hub.publish("event", as_json(happened(3, "a late one")))
            code = await process.wait()
    assert code == 0
    assert last in text
