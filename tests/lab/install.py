"""This source tree -> sparkd installed on the nodes as a person would have it: wheel, units, node service, keys."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import outer
from .build import SERVICE_GROUP, locked
from .commands import pipe, run, step
from .layout import CACHE, FAST_VLLM, REPO

if TYPE_CHECKING:
    from .nodes import Node

KEY = "/etc/sparkd/id_ed25519"
KNOWN_HOSTS = "/etc/sparkd/known_hosts"
NODE_CONFIG = {"read_roots": ["/var/log", "/lab", "/etc/systemd"], "state_dir": "/var/lib/sparkd-node"}
_STAMP = "/etc/sparkd-lab/installed"
# unit -> whether only the head has it
_UNITS = {"sparkd-node.socket": False, "sparkd-node.service": False, "sparkd.service": True}


def install(nodes: Sequence[Node], wheel: Path | None = None) -> None:
    """Brings every node to the state of this tree; the first is the head. A node that already is costs one look."""
    built = wheel or build_wheel()
    wanted = hashlib.sha256(built.read_bytes() + source_hash(REPO / "deploy").encode()).hexdigest()
    head = nodes[0]
    stale = [node for node in nodes if node.run(["cat", _STAMP], check=False).stdout != wanted]
    for node in stale:
        with step(f"installing sparkd on {node.name}"):
            if node is head:
                _install_wheel(node, built)
            _install_sources(node)
            _install_units(node, node is head)
            node.write("/etc/sparkd/node.json", json.dumps(NODE_CONFIG, indent=1) + "\n")
    if stale:
        _trust(head, nodes[1:])
    for node in stale:
        node.write(_STAMP, wanted)


def configure(head: Node, files: Mapping[str, str]) -> None:
    """Replaces sparkd.yaml and deployments/ on the head by `files` (path under /etc/sparkd -> text)."""
    head.run(["sh", "-c", "cd /etc/sparkd && rm -rf sparkd.yaml deployments && mkdir deployments"])
    for path, text in files.items():
        head.write(f"/etc/sparkd/{path}", text)


def source_hash(*paths: Path) -> str:
    """Changes with the name or content of any file at or under `paths`."""
    digest = hashlib.sha256()
    for top in paths:
        found = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        for path in found:
            if path.suffix != ".pyc":
                digest.update(f"{path.relative_to(REPO)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def build_wheel() -> Path:
    """The wheel of this tree, built without the network; once per content."""
    key = source_hash(REPO / "pyproject.toml", REPO / "README.md", REPO / "LICENSE", REPO / "sparkd")
    folder = CACHE / f"wheel-{key}"
    with locked():
        if not folder.exists():
            _make_wheel(folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _make_wheel(folder: Path) -> None:
    for older in CACHE.glob("wheel-*"):
        shutil.rmtree(older)
    with step("building the wheel"), tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        argv = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
        run([*argv, "--wheel-dir", f"{temporary}/wheel", str(REPO)], timeout_s=120)
        Path(temporary, "wheel").rename(folder)


def _install_wheel(head: Node, wheel: Path) -> None:
    # Not /tmp: that is a tmpfs of the node's, which `docker cp` does not see.
    outer.docker("cp", str(wheel), f"{head.name}:/opt/{wheel.name}")
    pip = ["/opt/sparkd/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall"]
    head.run([*pip, f"/opt/{wheel.name}"], timeout_s=120)


def _install_sources(node: Node) -> None:
    """The node service, which needs nothing but its files; and the simulated engine, for ranks, in /lab/fast."""
    for target, parts in (("/usr/lib/sparkd", ("__init__.py", "node")), ("/lab/fast", ("__init__.py", "demo"))):
        present = [f"sparkd/{part}" for part in parts if (REPO / "sparkd" / part).exists()]
        node.run(["rm", "-rf", target])
        node.run(["mkdir", "-p", target])
        tar = ["tar", "-C", str(REPO), "--exclude=__pycache__", "--owner=0", "--group=0", "-cf", "-", *present]
        pipe(tar, [*outer.client(), "exec", "-i", node.name, "tar", "-C", target, "-xf", "-"], timeout_s=60)
    node.run(["ln", "-s", "sparkd/demo/engine/vllm", FAST_VLLM])


def _install_units(node: Node, head: bool) -> None:
    """Installs what deploy/ has; sockets are enabled and listen at once, the daemon is enabled and started by the test."""
    wanted = [name for name, only_head in _UNITS.items() if head or not only_head]
    units = [name for name in wanted if (REPO / "deploy" / name).exists()]
    for name in units:
        text = (REPO / "deploy" / name).read_text()
        # Needs CAP_SYS_RESOURCE, which a sandboxed machine may lack; systemd would refuse to start the unit.
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("OOMScoreAdjust=-"))
        node.write(f"/etc/systemd/system/{name}", text)
    node.run(["systemctl", "daemon-reload"])
    enabled = [name for name in units if name.endswith(".socket")]
    if enabled:
        node.run(["systemctl", "enable", "--quiet", *enabled])
    node.run(["systemctl", "stop", *[name for name in units if name.startswith("sparkd-node")]], check=False)
    for socket in (name for name in units if name.endswith(".socket")):
        node.run(["systemctl", "start", socket])


def _trust(head: Node, workers: Sequence[Node]) -> None:
    """Lets the head's service user into each worker, and pins the workers' host keys on the head."""
    if head.run(["test", "-f", KEY], check=False).returncode != 0:
        head.run(["mkdir", "-p", "/etc/sparkd"])
        head.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sparkd@lab", "-f", KEY])
        head.run(["chown", f"sparkd:{SERVICE_GROUP}", KEY])
    key = head.read(f"{KEY}.pub")
    pinned = ""
    for worker in workers:
        worker.write("/home/sparkd/.ssh/authorized_keys", key, 0o600)
        worker.run(["chown", "-R", f"sparkd:{SERVICE_GROUP}", "/home/sparkd/.ssh"])
        host_key = worker.read("/etc/ssh/ssh_host_ed25519_key.pub").split()
        pinned += f"{worker.name},{worker.address} {host_key[0]} {host_key[1]}\n"
    head.write(KNOWN_HOSTS, pinned)
