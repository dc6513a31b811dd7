"""A running node service -> answers to one test's questions."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWNER = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"

Answer = dict[str, Any]


def wait_for(what: str, condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    ends = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends, f"{what}: not within {deadline_s:g} s"
        time.sleep(0.01)


def identity(pid: int) -> tuple[str, int]:
    """State and start ticks, read here in another way than the service does."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split(" ")
    return words[0], int(words[19])


class Connection:
    """One client. Fails the test instead of waiting for ever."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self.socket.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def receive(self) -> Answer:
        answer: Answer = json.loads(self._lines.readline())
        return answer

    def ended(self) -> bool:
        return self._lines.readline() == b""

    def ask(self, op: str, owner: str = OWNER, v: object = 1, **fields: Any) -> Answer:
        """The one answer of a verb, or the refusal of a probe request."""
        self.send(json.dumps({"v": v, "owner": owner, "op": op, **fields}).encode() + b"\n")
        return self.receive()

    def verb(self, op: str, **args: Any) -> Answer:
        return self.ask(op, args=args, deadline_s=15.0)

    def probe(self, *probes: Mapping[str, Any], deadline_s: float = 15.0) -> dict[str, Answer]:
        """Answers by probe, in the order of their arrival; the last is `done`."""
        answer = self.ask("probe", probes=list(probes), deadline_s=deadline_s)
        answers = {}
        while "done" not in answer:
            assert "probe" in answer, answer
            answers[answer["probe"]] = answer
            answer = self.receive()
        return {**answers, "done": answer}

    def text(self, name: str, **args: Any) -> str:
        answer = self.probe({"name": name, "args": args})[name]
        assert "text" in answer, answer
        return str(answer["text"])


@dataclass
class Service:
    """`root` is laid out like /usr/lib/sparkd on a node; `bin` comes first on the service's PATH."""

    root: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    config: Path = field(init=False)
    state: Path = field(init=False)
    bin: Path = field(init=False)
    socket: Path = field(init=False)

    def __post_init__(self) -> None:
        self.config, self.state = self.folder / "node.json", self.folder / "state"
        self.bin, self.socket = self.folder / "bin", self.folder / "s"
        self.bin.mkdir()

    def argv(self, python: str = sys.executable) -> list[str]:
        return [python, "-S", "-m", "sparkd.node", "--config", str(self.config), "--state-dir", str(self.state)]

    def start(self, python: str = sys.executable) -> None:
        self.process = self.spawn([*self.argv(python), "--socket", str(self.socket)])
        wait_for("the node service listens", self._listens)

    def spawn(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **options.pop("env", {})}
        return subprocess.Popen(argv, cwd=self.root, env=environment, **{"stderr": subprocess.DEVNULL, **options})

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(10)

    def connect(self) -> Connection:
        return Connection(self.socket)

    def claimed(self) -> Connection:
        connection = self.connect()
        assert connection.ask("claim")["ok"]
        return connection

    def program(self, name: str, script: str) -> None:
        """Puts a program in front of the service's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the node service ended"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            return trial.connect_ex(str(self.socket)) == 0
