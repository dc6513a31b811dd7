"""The engine that the nodes are containers of: a dockerd of the lab's own, in its own network namespace and cgroup.

Everything may have been SIGKILLed at any moment; starting again must work. So nothing left is trusted: what is in the
lab's cgroup or names its folder is ended, what is mounted under it is unmounted, and only Docker's data is kept.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from .build import NODE_ROOT
from .commands import LabError, pipe, run, say, step, wait_for
from .image import tree_hash, write_overlay
from .layout import CGROUP, NETNS, NETWORKS, STATE

# docker.io's own client: another one in /usr/local may speak a newer API than this dockerd.
DOCKER = "/usr/bin/docker"
SOCKET = STATE / "docker.sock"
LOG = STATE / "dockerd.log"
_DATA = STATE / "data"
_EXEC = STATE / "exec"
_PIDFILE = STATE / "dockerd.pid"
# Programs the engine consists of, from its start on; the shims are called containerd-shim-something.
_ENGINE = ("setsid", "nsenter", "dockerd", "containerd")


def docker(*args: str, check: bool = True, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """The outer engine's client. Raises LabError as `commands.run` does."""
    return run([*client(), *args], check=check, timeout_s=timeout_s)


def client() -> list[str]:
    """The beginning of an argument vector that talks to the outer engine."""
    return [DOCKER, "-H", f"unix://{SOCKET}"]


def bench(argv: Sequence[str]) -> list[str]:
    """`argv` as a command of this machine *in the lab's network* (10.77.0.1), where nodes can be reached."""
    return ["nsenter", f"--net=/run/netns/{NETNS}", "--", *argv]


def answers() -> bool:
    """Whether the outer engine is up."""
    try:
        return SOCKET.exists() and docker("version", check=False, timeout_s=10).returncode == 0
    except LabError:
        return False


def start() -> None:
    """Starts the outer engine unless it answers, over whatever an earlier one left, and its two networks."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not answers():
        sweep()
        with step("starting the outer engine"):
            _start_namespace()
            _start_daemon()
    for network in NETWORKS:
        if docker("network", "inspect", network.name, check=False).returncode != 0:
            # Internal: Docker itself drops whatever would leave it.
            options = ["--internal", "--subnet", network.subnet, "--gateway", network.bench]
            docker("network", "create", *options, network.name)


def stop() -> None:
    """Ends the outer engine and all that runs in it; its data stays for the next start."""
    if _PIDFILE.exists() and answers():
        pid = int(_PIDFILE.read_text())
        os.kill(pid, signal.SIGTERM)
        with suppress(LabError):  # sweep() ends what would not
            wait_for("the outer engine's end", lambda: not _alive(pid), 30)
    sweep()
    if Path(f"/run/netns/{NETNS}").exists():
        run(["ip", "netns", "delete", NETNS])


def purge() -> None:
    """Also removes its data. Only after `stop`."""
    if STATE.exists():
        shutil.rmtree(STATE)


def node_image() -> str:
    """The tag of the node image for the current recipe, made when missing."""
    base = f"lab/node-base:{NODE_ROOT.key}"
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder, "overlay")
        write_overlay(overlay)
        tag = f"lab/node:{NODE_ROOT.key}-{tree_hash(overlay)}"
        if not _has_image(base):
            with step("importing the node image"):
                pipe(["tar", "-c", "-C", str(NODE_ROOT.path), "."], [*client(), "import", "-", base], timeout_s=600)
        if not _has_image(tag):
            Path(folder, "Dockerfile").write_text(f"FROM {base}\nCOPY overlay /\n")
            docker("build", "--quiet", "--tag", tag, folder, timeout_s=300)
    return tag


def _has_image(tag: str) -> bool:
    return docker("image", "inspect", tag, check=False).returncode == 0


def _start_namespace() -> None:
    if not Path(f"/run/netns/{NETNS}").exists():
        run(["ip", "netns", "add", NETNS])
    run(["ip", "-n", NETNS, "link", "set", "lo", "up"])


def _start_daemon() -> None:
    argv = ["dockerd", "--data-root", str(_DATA), "--exec-root", str(_EXEC), "--pidfile", str(_PIDFILE)]
    argv += ["--host", f"unix://{SOCKET}", "--bridge", "none", "--ip-forward=false", "--ip-masq=false"]
    argv += ["--cgroup-parent", CGROUP]
    if not _unified_cgroups():
        argv += ["--exec-opt", "native.cgroupdriver=cgroupfs"]
    LOG.unlink(missing_ok=True)
    # Forked off, so that it outlives whoever starts the lab. And nsenter, not `ip netns exec`: that one mounts a new
    # /sys, and the cgroups under it are gone.
    run(["setsid", "--fork", *bench(argv)], log=LOG)

    seen = False

    def up() -> bool:
        # Right after the fork it is still setsid, then nsenter: on a machine that reads its programs from a cold disk that
        # lasts, and was taken for its end.
        nonlocal seen
        runs = any(processes())
        if seen and not runs:
            raise LabError(f"the outer engine ended at its start (see {LOG})")
        seen = seen or runs
        return answers()

    wait_for(f"the outer engine's first answer (see {LOG})", up, 90)


def sweep() -> None:
    """Ends, unmounts and removes what an earlier outer engine left. Its data stays."""
    ours = list(processes())
    if ours:
        say(f"ending {len(ours)} processes of an earlier lab")
    for pid in ours:
        with suppress(ProcessLookupError):  # its parent's death may have taken it
            os.kill(pid, signal.SIGKILL)
    wait_for("the end of an earlier lab's processes", lambda: not any(_alive(pid) for pid in ours), 30)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(STATE)]):
        run(["umount", "--lazy", mount], check=False)
    for left in (_PIDFILE, SOCKET):
        left.unlink(missing_ok=True)
    if _EXEC.exists():
        shutil.rmtree(_EXEC)
    groups = Path("/sys/fs/cgroup")
    for top in [groups / CGROUP[1:], *groups.glob(f"*{CGROUP}")]:
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):  # a group still in use; the next sweep gets it
                os.rmdir(folder)


def processes() -> Iterator[int]:
    """Processes in the lab's cgroup, and the engine's own, which name its exec folder in their arguments."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            groups = (entry / "cgroup").read_text()
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        program = Path(words[0]).name
        engine = program.startswith(_ENGINE) and any(word.startswith(str(_EXEC)) for word in words)
        if f":{CGROUP}/" in groups or engine:
            yield int(entry.name)


def _alive(pid: int) -> bool:
    """Whether `pid` still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _unified_cgroups() -> bool:
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def init_words() -> list[str]:
    """What a node's systemd is told at its start: systemd 257 refuses cgroup v1 without these two words."""
    return [] if _unified_cgroups() else ["systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"]
