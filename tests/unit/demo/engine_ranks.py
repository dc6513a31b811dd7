"""Real ranks of the simulated engine on 127.0.0.1 and 127.0.0.2, and what can be seen of them from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
VLLM = Path(__file__).parents[3] / "sparkd" / "demo" / "engine" / "vllm"
FAST = {"SPARKD_SIM_START_S": "0.2", "SPARKD_SIM_RATE": "100", "SPARKD_SIM_STOP_S": "0.4", "SPARKD_SIM_DEAD_S": "0.7"}
CLOSE_WAIT = "08"


def wait_for(look: Callable[[], Value | None], what: str, seconds: float = 10.0) -> Value:
    """The first truthy value of `look`; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Rank:
    """One rank: its process group, its log, its children by title."""

    def __init__(self, argv: list[str], folder: Path, name: str, environment: dict[str, str]) -> None:
        self.log_path = folder / f"{name}.log"
        with self.log_path.open("wb") as log:
            command = [sys.executable, str(VLLM), "serve", *argv]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **FAST, **environment}, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def pids(self) -> dict[str, int]:
        """The living processes of the group, by title; also those whose parent is gone."""
        found: dict[str, int] = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid and alive(int(entry.name)):
                    found[title(int(entry.name))] = int(entry.name)
            except (ProcessLookupError, FileNotFoundError):
                continue  # it ended while we looked
        return found

    def pid(self, name: str) -> int:
        return wait_for(lambda: self.pids().get(name), f"a process titled {name}; log:\n{self.log}")

    def says(self, text: str, seconds: float = 10.0) -> None:
        wait_for(lambda: text in self.log, f"{text!r} in\n{self.log}", seconds)

    def status(self, seconds: float = 10.0) -> int:
        """Waits for the exit status of the parent."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; log:\n{self.log}") from None

    def kill(self) -> None:
        """SIGKILL to the whole group, as `docker kill` does to a container."""
        with suppress(ProcessLookupError):  # all gone already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)


class Pair:
    """Two ranks, or one, with ports and folders of their own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.shm = folder / "shm"
        self.shm.mkdir()
        self.faults = folder / "faults.json"
        self.environment = {
            "SPARKD_SIM_SHM_DIR": str(self.shm),
            "SPARKD_SIM_FAULTS": str(self.faults),
            **environment,
        }
        self.port = free_port()
        self.master = free_port()
        self.ranks: list[Rank] = []

    def start(self, rank: int, *flags: str, headless: bool = True, model: str = "some/model") -> Rank:
        argv = [model, "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)]
        argv += ["--max-model-len", "1024", "--max-num-seqs", "4", "--tensor-parallel-size", "2", "--nnodes", "2"]
        argv += ["--master-addr", "127.0.0.1", "--master-port", str(self.master), "--node-rank", str(rank), *flags]
        if rank and headless:
            argv.append("--headless")
        started = Rank(argv, self.folder, f"rank{rank}", {**self.environment, "VLLM_HOST_IP": f"127.0.0.{rank + 1}"})
        self.ranks.append(started)
        return started

    def serving(self, *flags: str) -> tuple[Rank, Rank]:
        """Both ranks, formed and answering."""
        head, peer = self.start(0, *flags), self.start(1)
        head.says("Application startup complete.")
        return head, peer

    def fault(self, **faults: Any) -> None:
        whole = self.folder / "faults.new"
        whole.write_text(json.dumps(faults))
        whole.replace(self.faults)

    def shared(self) -> list[tuple[str, int]]:
        return sorted((path.name.partition("_")[0].split(".mp")[0], path.stat().st_size) for path in self.shm.iterdir())

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET; 0 when the connection is refused or cut."""
        return self.ask(path, None)

    def post(self, path: str = "/v1/completions", **body: Any) -> tuple[int, str]:
        return self.ask(path, json.dumps({"prompt": "hello", "max_tokens": 4, **body}).encode())

    def ask(self, path: str, data: bytes | None, seconds: float = 10.0) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, seconds) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @contextmanager
    def stream(self, **body: Any) -> Iterator[Iterator[str]]:
        """The data lines of a long streamed completion, from the second token on."""
        asked = json.dumps({"prompt": "hello", "max_tokens": 900, "stream": True, **body}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/completions", asked, 20) as response:
            assert response.status == 200
            lines = (line.decode()[6:].strip() for line in response if line.startswith(b"data: "))
            assert json.loads(next(lines))["choices"][0]["text"]
            yield lines

    @contextmanager
    def later(self, **body: Any) -> Iterator[threading.Thread]:
        """A completion in a thread: it may have to wait, or fail."""
        thread = threading.Thread(target=self.post, kwargs=body, daemon=True)
        thread.start()
        yield thread

    def metric(self, name: str) -> float:
        """The value of one sample without further labels."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def widowed(self) -> bool:
        """Whether a socket to the master port stands in CLOSE_WAIT."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(row[2].endswith(f":{self.master:04X}") and row[3] == CLOSE_WAIT for row in rows)

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
