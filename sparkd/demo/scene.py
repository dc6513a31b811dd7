"""One running demo seen from outside: its status and history by the API, its processes, an answer of its engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import click

from sparkd.ctl.client import Api
from sparkd.ctl.errors import Unreached
from sparkd.ctl.text import terminal, wrap
from sparkd.demo.errors import DemoError
from sparkd.demo.layout import NAME, Layout
from sparkd.facts import processes
from sparkd.model.machine import Process
from sparkd.node.probes import processes as probe
from sparkd.runtimes import shim_record

POLL_S = 0.1
ANSWER_S = 10.0

Event = dict[str, Any]


class Rank(NamedTuple):
    """`pid` is that of its first process."""

    id: str
    pid: int


class Scene:
    """Methods raise CtlError when sparkd cannot be reached, DemoError for what the demo did not show."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.api = Api(str(layout.socket))

    def status(self) -> dict[str, Any]:
        return self.api.get("/api/v1/status")

    def deployment(self) -> dict[str, Any]:
        deployment: dict[str, Any] = self.status()["deployments"][0]
        return deployment

    def settled(self) -> dict[str, Any]:
        """The status, also of a sparkd that has just been started again. Raises DemoError."""
        end = time.monotonic() + ANSWER_S
        while time.monotonic() < end:
            try:
                return self.status()
            except Unreached:
                time.sleep(POLL_S)
        raise DemoError(f"sparkd did not come back in {ANSWER_S:.0f} s", f"its log: {self.layout.log}")

    def operate(self, verb: str, message: str) -> None:
        self.api.post(f"/api/v1/deployments/{NAME}/{verb}", {"message": message, "assume_lost": []})

    # --------------------------------------------------------------------------------------------------------- history

    def last_event(self) -> int:
        events = self.api.get("/api/v1/history", limit=1)["events"]
        return int(events[-1]["id"]) if events else 0

    def happening(self, after: int, seconds: float) -> Iterator[Event]:
        """Every event after that one, as it happens. Raises DemoError after `seconds`: the reader waits for another."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in sorted(self._events(after), key=lambda one: int(one["id"])):
                after = int(event["id"])
                yield event
            time.sleep(POLL_S)
        raise DemoError(f"it took longer than {seconds:.0f} s; sparkd says: {self.deployment()['sentence']}")

    def _events(self, after: int) -> list[Event]:
        try:
            return list(self.api.get("/api/v1/history", after=after, limit=100)["events"])
        except Unreached:
            return []  # it was killed and is being started again; the deadline ends a longer silence

    def follow(self, after: int, since: float, seconds: float, last: Callable[[Event], bool]) -> list[Event]:
        """Prints each event with the seconds since `since` (Unix time) until `last` says that it was the last one."""
        seen = []
        for event in self.happening(after, seconds):
            _tell(event, since)
            seen.append(event)
            if last(event):
                break
        return seen

    # ------------------------------------------------------------------------------------------------------- processes

    def process(self, node: str, title: str) -> Process:
        """The process of a rank on this node with this title. Raises DemoError."""
        environ = {"SPARKD_NODE": node, "SPARKD_SIM_FAULTS": str(self.layout.faults)}
        text = probe.probe({"containers": [], "units": [], "environ": environ}, ANSWER_S)
        for process in processes.parse(text):
            if process.title == title:
                return process
        raise DemoError(f"there is no process {title} on {node}", "wait until the deployment serves")

    def rank(self, node: str, rank: int) -> Rank:
        """Raises DemoError."""
        folder = self.layout.ranks(node) / f"sparkd-{NAME}-{rank}"
        try:
            record = shim_record.read(folder)
        except (OSError, ValueError):
            record = None  # it is being made or removed
        if record is None or record.rank is None:
            raise DemoError(f"rank {rank} does not run", "wait until the deployment serves")
        return Rank(record.id, record.rank.pid)

    def daemon(self) -> int:
        """Pid of sparkd: the process that listens on its socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.layout.socket))
            pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)

    def listener(self, port: int) -> socket.socket:
        """Listens there as soon as nobody else does. Raises DemoError."""
        end = time.monotonic() + ANSWER_S
        while time.monotonic() < end:
            try:
                return socket.create_server(("127.0.0.1", port))
            except OSError:
                time.sleep(POLL_S)
        raise DemoError(f"port {port} did not get free in {ANSWER_S:.0f} s")

    # ---------------------------------------------------------------------------------------------------------- engine

    def ask(self, question: str) -> str:
        """The engine's answer to a chat message. Raises DemoError."""
        body = {"model": "tiny-llm", "max_tokens": 12, "messages": [{"role": "user", "content": question}]}
        request = urllib.request.Request(
            f"{self.layout.engine_url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=ANSWER_S) as response:
                return str(json.load(response)["choices"][0]["message"]["content"]).strip()
        except (OSError, ValueError, KeyError) as error:
            raise DemoError(f"the engine did not answer: {error}") from None


def _tell(event: Event, since: float) -> None:
    when = f"  {age(event, since):+6.1f} s  "
    for line in wrap(event["sentence"], terminal().width - len(when)):
        click.echo(when + line)
        when = " " * len(when)


def age(event: Event, since: float) -> float:
    """Seconds from `since` (Unix time) to the event."""
    return datetime.fromisoformat(event["at"]).timestamp() - since


def kill(pid: int) -> None:
    """SIGKILL. Raises DemoError when it is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        raise DemoError(f"process {pid} has just ended by itself") from None
