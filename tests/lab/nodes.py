"""The outer engine -> two booted nodes, and what a test does to them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import build, install, outer
from .commands import LabError, run, say, step, wait_for
from .layout import ASSETS, ENGINE_IMAGE, FABRIC, MANAGEMENT, MANAGEMENT_LINK, PLANS, STATE, NodePlan, hosts

_RECIPE = "io.sparkd-lab.recipe"
BOOT_DEADLINE_S = 90.0
_WRITE = 'install -D -m "$1" /dev/stdin "$2.new" && mv "$2.new" "$2"'


@dataclass(frozen=True, slots=True)
class Node:
    """One running node. Everything reaches it through the outer engine, never over the networks under test."""

    plan: NodePlan

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def address(self) -> str:
        """Management address: SSH."""
        return self.plan.address

    @property
    def data_address(self) -> str:
        """Fabric address: the engine's own traffic."""
        return self.plan.data_address

    @property
    def fabric_link(self) -> str:
        return self.plan.fabric_link

    @property
    def management_link(self) -> str:
        return MANAGEMENT_LINK

    def run(
        self,
        argv: Sequence[str],
        check: bool = True,
        input: str | None = None,
        timeout_s: float = 60.0,
        user: str = "root",
    ) -> subprocess.CompletedProcess[str]:
        """Runs `argv` on the node. Raises LabError when it fails (with `check`) or takes longer than `timeout_s`."""
        flags = ["--user", user, *(["-i"] if input is not None else [])]
        command = [*outer.client(), "exec", *flags, self.name, *argv]
        return run(command, check=check, input=input, timeout_s=timeout_s)

    def text(self, argv: Sequence[str], timeout_s: float = 60.0) -> str:
        """What `argv` prints on the node, stripped. Raises LabError when it fails."""
        return self.run(argv, timeout_s=timeout_s).stdout.strip()

    def popen(self, argv: Sequence[str], user: str = "root") -> subprocess.Popen[str]:
        """Starts `argv` on the node and leaves it running, its output on one pipe. Ending it is the caller's work."""
        command = [*outer.client(), "exec", "--user", user, self.name, *argv]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def docker(self, *args: str, check: bool = True, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """The client of the node's own Docker, on the node."""
        return self.run(["docker", *args], check=check, timeout_s=timeout_s)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Writes a root-owned file, its folders made, in one rename."""
        self.run(["sh", "-c", _WRITE, "sh", f"{mode:o}", path], input=text)

    def add_user(self, name: str) -> None:
        """A person with a home, unless there is one by that name."""
        if self.run(["id", name], check=False).returncode != 0:
            self.run(["useradd", "--create-home", name])

    def read(self, path: str) -> str:
        """The whole text of a file. Raises LabError when there is none."""
        return self.run(["cat", path]).stdout

    def inside(self, path: str) -> Path:
        """A path of the node as one of this machine, until its next boot. Raises LabError while it is off."""
        pid = outer.docker("inspect", "--format", "{{.State.Pid}}", self.name).stdout.strip()
        if pid == "0":
            raise LabError(f"{self.name} is off")
        return Path(f"/proc/{pid}/root{path}")

    def running(self) -> bool:
        """Whether the node has power."""
        asked = outer.docker("inspect", "--format", "{{.State.Running}}", self.name, check=False)
        return asked.stdout.strip() == "true"

    def system_state(self) -> str:
        """What `systemctl is-system-running` says, or `off`."""
        if not self.running():
            return "off"
        asked = self.run(["systemctl", "is-system-running"], check=False)
        return asked.stdout.strip() or "starting"

    def wait_booted(self, deadline_s: float = BOOT_DEADLINE_S) -> None:
        """Waits until systemd says that boot is over; `degraded` counts, for a unit of a test may have failed.

        SSH and Docker belong to the boot, so they are up then, unless a test stopped them.
        """
        over = ("running", "degraded")
        wait_for(f"the boot of {self.name}", lambda: self.system_state() in over, deadline_s)

    def start(self) -> None:
        """Power on. Returns before the boot is over."""
        outer.docker("start", self.name)

    def pid_of(self, pattern: str) -> int:
        """The pid on the node of the oldest process whose command line matches `pattern`. LabError without one."""
        return int(self.text(["pgrep", "--oldest", "--full", pattern]).split()[0])


class Lab:
    """Two nodes, `spark1` the head. One at a time on a machine: `exclusive` waits for the other."""

    def __init__(self) -> None:
        self.nodes = tuple(Node(plan) for plan in PLANS)
        self.spark1, self.spark2 = self.nodes
        self.resets = 0
        """How often the nodes were made clean: what a test left before that is gone."""

    def __getitem__(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def up(self) -> None:
        """Builds what is missing and starts what does not run. Nodes of the current recipe are kept as they are."""
        build.build()
        outer.start()
        image = outer.node_image()
        self._both(lambda node: _ensure_node(node, image))
        self._both(_ensure_engine_image)
        _remove_stale(image)
        build.prune()

    def down(self, purge: bool = False) -> None:
        """Removes the nodes and the outer engine. Images and the nodes' Docker volumes stay unless `purge`."""
        if outer.answers():
            names = [node.name for node in self.nodes]
            outer.docker("rm", "--force", "--volumes", *names, check=False)
        outer.stop()
        if purge:
            outer.purge()

    @contextmanager
    def exclusive(self, wait_s: float = 3600.0) -> Iterator[None]:
        """Holds the lab for one user. Raises LabError when another holds it longer than `wait_s` seconds."""
        STATE.mkdir(parents=True, exist_ok=True)
        with (STATE / "user.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                say(f"the lab is in use by pid {lock.read().strip() or '?'}, waiting up to {wait_s:g} s")
                wait_for("the lab's other user to finish", partial(_try_lock, lock.fileno()), wait_s, every_s=1.0)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def install(self, wheel: Path | None = None) -> None:
        """Puts sparkd (this tree, or `wheel`) on the head, the node service on both, units and keys."""
        install.install(self.nodes, wheel)

    def configure(self, files: Mapping[str, str]) -> None:
        """Replaces sparkd's configuration on the head: path under /etc/sparkd (`deployments/x.yaml`) -> text."""
        install.configure(self.spark1, files)

    def reset(self) -> None:
        """Both nodes clean and healthy, without a reboot: see `assets/reset.py`."""
        self.resets += 1
        self._both(_reset)

    def _both(self, work: Callable[[Node], None]) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(work, self.nodes))


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _volume(node: Node) -> str:
    """The disk of a node's own Docker: kept from lab to lab, so that the engine image is imported once."""
    return f"{node.name}-docker-{build.ENGINE_TAR.key}"


def _create_argv(node: Node, image: str) -> list[str]:
    """`docker create` arguments. Not --privileged: that asks for SYS_RESOURCE, which a sandboxed machine may lack."""
    argv = ["--name", node.name, "--hostname", node.name, "--env", "container=docker", "--stop-signal", "SIGRTMIN+3"]
    argv += ["--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--cgroupns", "private"]
    argv += ["--device-cgroup-rule", "a *:* rwm"]
    # Unconfined paths make /proc/sys/vm/drop_caches writable: dropping caches really happens.
    for unconfined in ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"):
        argv += ["--security-opt", unconfined]
    argv += ["--network", MANAGEMENT.name, "--ip", node.address, "--shm-size", "2g"]
    argv += [word for name, address in hosts().items() for word in ("--add-host", f"{name}:{address}")]
    argv += [word for mount in ("/run", "/run/lock", "/tmp") for word in ("--tmpfs", mount)]
    argv += ["--volume", f"{_volume(node)}:/var/lib/docker"]
    for inside, artefact in (("vllm", build.VLLM_ENV), ("model", build.MODEL), ("images", build.ENGINE_TAR)):
        argv += ["--volume", f"{artefact.path}:/lab/{inside}:ro"]
    return [*argv, image, "/sbin/init", *outer.init_words()]


def _ensure_node(node: Node, image: str) -> None:
    argv = _create_argv(node, image)
    recipe = hashlib.sha256(json.dumps(argv).encode()).hexdigest()
    asked = outer.docker("inspect", "--format", f'{{{{index .Config.Labels "{_RECIPE}"}}}}', node.name, check=False)
    usable = asked.stdout.strip() == recipe
    if usable and node.running():
        try:
            _wake(node)
            return
        except LabError as error:  # a node beyond repair is replaced
            say(f"{error}; making {node.name} anew")
            usable = False
    if not usable:
        outer.docker("rm", "--force", node.name, check=False)
        outer.docker("create", "--label", f"{_RECIPE}={recipe}", *argv)
        outer.docker("network", "connect", "--ip", node.data_address, FABRIC.name, node.name)
    with step(f"booting {node.name}"):
        node.start()
        node.wait_booted()


def _ensure_engine_image(node: Node) -> None:
    tag = f"{ENGINE_IMAGE.partition(':')[0]}:{build.ENGINE_TAR.key}"
    if node.docker("image", "inspect", tag, check=False).returncode != 0:
        with step(f"importing the engine image on {node.name}"):
            loaded = node.docker("load", "-q", "-i", "/lab/images/engine.tar", timeout_s=600).stdout
            node.docker("tag", loaded.split()[-1], tag)
    node.docker("tag", tag, ENGINE_IMAGE)


def _remove_stale(image: str) -> None:
    """Node images and Docker volumes of older recipes."""
    base = f"lab/node-base:{build.NODE_ROOT.key}"
    for tag in outer.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "lab/*").stdout.split():
        if tag not in (image, base):
            outer.docker("image", "rm", tag, check=False)
    wanted = {_volume(Node(plan)) for plan in PLANS}
    for volume in outer.docker("volume", "ls", "--quiet").stdout.split():
        if volume not in wanted:
            outer.docker("volume", "rm", volume, check=False)


def _wake(node: Node) -> None:
    """A running node, whatever a broken-off test left it in -> one whose systemd, SSH and Docker answer."""
    node.run(["pkill", "-CONT", "."], check=False)
    node.wait_booted()
    node.run(["systemctl", "start", "docker.socket", "docker.service", "ssh.service"])


def _reset(node: Node) -> None:
    if not node.running():
        node.start()
    _wake(node)
    done = node.run(["python3", "-"], input=(ASSETS / "reset.py").read_text(), check=False, timeout_s=120)
    if done.returncode != 0:
        raise LabError(f"{node.name} could not be reset: {done.stderr.strip()}")
