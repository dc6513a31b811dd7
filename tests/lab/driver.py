"""sparkd on the lab's head, as a person has it: its configuration, its service, `sparkd ctl`, its journal."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.ctl.client import DEFAULT_SOCKET, Api
from sparkd.ctl.errors import Refused, Unreached

from .commands import LabError, wait_for
from .configured import AS_PEOPLE_HAVE_IT, FAST_POLICY, NAME, REAL_POLICY, cluster, deployment
from .nodes import Lab, Node

SPARKD = "/opt/sparkd/bin/sparkd"
FAST_START_S, REAL_START_S = 60.0, 240.0

Json = dict[str, Any]


@dataclass(slots=True)
class Daemon:
    """The daemon under the head's systemd, and the ranks it runs."""

    lab: Lab
    real: bool = False
    resets: int = 0
    """Of the lab, when this daemon was configured."""
    _api: Api | None = None

    @property
    def head(self) -> Node:
        return self.lab.spark1

    @property
    def worker(self) -> Node:
        return self.lab.spark2

    @property
    def start_s(self) -> float:
        return REAL_START_S if self.real else FAST_START_S

    # --------------------------------------------------------------------------------------------------------- service

    def configure(self, files: Mapping[str, str] | None = None, **changes: Any) -> None:
        """The lab's cluster with one deployment, or the given files under /etc/sparkd."""
        self.resets = self.lab.resets
        mine = cluster(REAL_POLICY, cleanup=AS_PEOPLE_HAVE_IT) if self.real else cluster(FAST_POLICY)
        self.lab.configure(files or {"sparkd.yaml": mine, f"deployments/{NAME}.yaml": deployment(self.real, **changes)})

    def up(self) -> None:
        """Start the service; returns when systemd says that it is ready (`Type=notify`: after the first look)."""
        self.head.run(["systemctl", "reset-failed", "sparkd.service"], check=False)
        self.head.run(["systemctl", "enable", "--quiet", "--now", "sparkd.service"], timeout_s=60)

    def kill(self) -> None:
        """SIGKILL to the daemon's main process."""
        self.head.run(["kill", "-KILL", str(self.pid())])

    def pid(self) -> int:
        return int(self.head.text(["systemctl", "show", "-P", "MainPID", "sparkd.service"]))

    # ------------------------------------------------------------------------------------------------------------- ctl

    def ctl(self, *args: str, check: bool = True, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        return self.head.run([SPARKD, "ctl", *args], check=check, timeout_s=timeout_s)

    def status(self) -> Json:
        """What `ctl status --json` prints. Asked from here, for it is asked twice a second while something is waited for."""
        if self._api is None:
            self._api = Api(str(self.head.inside(DEFAULT_SOCKET)))
        try:
            return self._api.get("/api/v1/status")
        except (Unreached, Refused) as error:
            self._api = None  # the node may have been booted meanwhile
            raise LabError(f"status: {error}") from error

    def one(self, name: str = NAME) -> Json:
        """The deployment in the status."""
        return next(dict(found) for found in self.status()["deployments"] if found["name"] == name)

    def start(self) -> Json:
        """`ctl start --wait`; the deployment as it serves."""
        limit = str(int(self.start_s))
        self.ctl("start", NAME, "--wait", "--timeout", limit, timeout_s=self.start_s + 30)
        return self.one()

    def wait(self, what: str, condition: Callable[[Json], object], deadline_s: float) -> Json:
        """Wait until the deployment's status satisfies `condition`; the daemon may be away meanwhile."""
        seen: list[Json] = []

        def holds() -> bool:
            try:
                seen.append(self.one())
            except LabError:
                return False
            return bool(condition(seen[-1]))

        try:
            wait_for(what, holds, deadline_s, every_s=0.25)
        except LabError as error:
            last = json.dumps(seen[-1], indent=1) if seen else "never answered"
            raise LabError(f"{error}; last status: {last}\n{self.log()}") from error
        return seen[-1]

    def wait_serving(self, after: int = 0, deadline_s: float | None = None) -> Json:
        """Wait until a generation newer than `after` serves."""
        return self.wait(
            f"generation above {after} to serve",
            lambda one: one["serving"] and one["generation"] > after,
            deadline_s or self.start_s + 60,
        )

    def recovered(self) -> bool:
        """Did the last test leave a group that serves, or comes back to serving by itself?"""
        if self.resets != self.lab.resets:
            return False
        try:
            return bool(
                self.wait("the group of the last test", lambda one: one["serving"] and one["wanted"] == "up", 60)
            )
        except LabError:
            return False

    def node(self, name: str) -> Json:
        return next(dict(found) for found in self.status()["nodes"] if found["name"] == name)

    def log(self, lines: int = 80) -> str:
        return self.head.run(["journalctl", "-u", "sparkd.service", "-n", str(lines), "--no-pager"], check=False).stdout

    def history(self) -> list[Json]:
        """Every event of the journal, oldest first."""
        found = json.loads(self.ctl("history", NAME, "--limit", "1000", "--json").stdout)["events"]
        return sorted(found, key=lambda event: event["id"])

    def kinds(self, kind: str) -> list[Json]:
        return [event for event in self.history() if event["kind"] == kind]

    # ----------------------------------------------------------------------------------------------------------- ranks

    def node_of(self, rank: int) -> Node:
        return self.lab.nodes[rank]

    def container(self, rank: int) -> str:
        return f"sparkd-{NAME}-{rank}"

    def running(self, rank: int) -> bool:
        asked = self.node_of(rank).docker("inspect", "-f", "{{.State.Running}}", self.container(rank), check=False)
        return asked.stdout.strip() == "true"

    def label(self, rank: int, label: str) -> str:
        wanted = f'{{{{index .Config.Labels "io.sparkd.{label}"}}}}'
        return self.node_of(rank).docker("inspect", "-f", wanted, self.container(rank)).stdout.strip()

    def engine_pid(self, rank: int, title: str = "VLLM::Worker") -> int:
        """The pid on its node of the rank's process with this title."""
        return self.node_of(rank).pid_of(f"^{title}")

    def complete(self, prompt: str = "hello", max_tokens: int = 8, timeout_s: float = 30.0) -> Json:
        """One chat completion, asked on the head. Raises LabError when it is refused."""
        messages = [{"role": "user", "content": prompt}]
        body = json.dumps({"model": "tiny", "messages": messages, "max_tokens": max_tokens})
        url = "http://127.0.0.1:8000/v1/chat/completions"
        argv = [
            "curl",
            "-sS",
            "--fail-with-body",
            "-m",
            str(timeout_s),
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
            url,
        ]
        return dict(json.loads(self.head.run(argv, timeout_s=timeout_s + 10).stdout))


def on_clean_nodes(lab: Lab, real: bool = False) -> Daemon:
    """sparkd on nodes that were made clean; nothing of its deployment runs yet."""
    lab.reset()
    lab.install()
    daemon = Daemon(lab, real=real)
    daemon.configure()
    daemon.up()
    return daemon


def audit(events: list[Json]) -> None:
    """The journal auditor: for every restart in these events, the earlier generation was verified gone before anything of the
    next one was started, no generation was begun twice, and generations only grow."""
    last, gone = 0, False
    for event in events:
        kind = event["kind"]
        if kind == "gone":
            assert event["generation"] > last, f"verified gone, but for a generation that was already there: {event}"
            gone = True
        elif kind == "starting":
            assert gone, f"started without a verified end of what was there before: {event}"
            assert event["generation"] > last, f"generation {event['generation']} after {last}: {event}"
            last, gone = event["generation"], False
        elif kind == "action" and event["data"].get("action") == "StartRanks":
            assert event["generation"] == last, (
                f"a rank of generation {event['generation']} while {last} was current: {event}"
            )


def overlaps(daemon: Daemon) -> list[str]:
    """Ranks of more than one generation alive at once, or one rank twice, as Docker itself has them now."""
    seen: dict[str, set[str]] = {}
    for node in daemon.lab.nodes:
        listed = node.docker(
            "ps", "--filter", f"label=io.sparkd.deployment={NAME}",
            "--format", '{{.Label "io.sparkd.generation"}} {{.Label "io.sparkd.rank"}}', check=False,
        ).stdout.split("\n")  # fmt: skip
        for line in filter(None, listed):
            generation, rank = line.split()
            seen.setdefault("generations", set()).add(generation)
            key = f"rank {rank} of {node.name}"
            if key in seen:
                return [f"{key} runs twice"]
            seen[key] = {generation}
    generations = seen.get("generations", set())
    return [f"generations {sorted(generations)} run at once"] if len(generations) > 1 else []


def since(started: float) -> float:
    return time.monotonic() - started
