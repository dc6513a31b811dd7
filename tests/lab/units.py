"""Ranks without containers, as the third field report runs them: units of the nodes' systemd, and Docker stopped everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from . import build, outer
from .commands import pipe
from .configured import NAME
from .driver import SPARKD, Daemon
from .faults import docker_stopped
from .nodes import Lab, Node

USER = "ranks"
VENV = "/opt/vllm-env"
MODEL = "/srv/model"


# ------------------------------------------------------------------------------------------------------------ the nodes


def prepare(node: Node) -> None:
    """A user, who may read the model; and a systemd that has memory controllers, which the mounts of its boot hid."""
    node.run(["cp", "-rT", "/lab/model", MODEL])
    node.run(["chmod", "-R", "a+rX", MODEL])
    node.add_user(USER)
    node.run(["systemctl", "daemon-reexec"])


def make_venv(node: Node) -> None:
    """The lab's vLLM with the Python that it was made with, as a venv of this node."""
    files = ["./usr/bin/python3.11", "./usr/lib/python3.11"]
    files += [f"./usr/lib/x86_64-linux-gnu/libnuma.so.{version}" for version in ("1", "1.0.0")]
    taken = ["tar", "-C", str(build.ENGINE_ROOT.path), "-cf", "-", *files]
    pipe(taken, [*outer.client(), "exec", "-i", node.name, "tar", "-C", "/", "-xf", "-"], timeout_s=120)
    node.run(["mkdir", "-p", f"{VENV}/bin"])
    node.run(["ln", "-sfn", "/usr/bin/python3.11", f"{VENV}/bin/python"])
    node.run(["ln", "-sfn", "/lab/vllm/lib", f"{VENV}/lib"])
    node.write(f"{VENV}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n")
    _, _, rest = node.read("/lab/vllm/bin/vllm").partition("\n")
    node.write(f"{VENV}/bin/vllm", f"#!{VENV}/bin/python\n{rest}", 0o755)


@contextmanager
def without_docker(lab: Lab, real: bool, **changes: Any) -> Iterator[Daemon]:
    """sparkd with one deployment of the process runtime; no Docker runs on any node until the end."""
    lab.reset()
    lab.install()
    for node in lab.nodes:
        prepare(node)
        if real:
            make_venv(node)
    daemon = Daemon(lab, real=real)
    with ExitStack() as mended:
        for node in lab.nodes:
            mended.enter_context(docker_stopped(node))
        daemon.configure(process=True, model=MODEL, **changes)
        daemon.up()
        yield daemon


# ------------------------------------------------------------------------------------------------------------- the ranks


def unit(rank: int) -> str:
    return f"sparkd-{NAME}-{rank}.service"


def shown(daemon: Daemon, rank: int, what: str) -> str:
    return daemon.node_of(rank).text(["systemctl", "show", "-P", what, unit(rank)])


def main_pid(daemon: Daemon, rank: int) -> int:
    return int(shown(daemon, rank, "MainPID"))


def environ(daemon: Daemon, rank: int) -> dict[str, str]:
    pairs = daemon.node_of(rank).read(f"/proc/{main_pid(daemon, rank)}/environ").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def argv(daemon: Daemon, rank: int) -> list[str]:
    return daemon.node_of(rank).read(f"/proc/{main_pid(daemon, rank)}/cmdline").rstrip("\0").split("\0")


def left(daemon: Daemon, ranks: int = 2) -> list[str]:
    """Units and processes that should not be there any more."""
    found = [unit(rank) for rank in range(ranks) if shown(daemon, rank, "LoadState") != "not-found"]
    running = [daemon.node_of(rank).run(["pgrep", "-f", "^VLLM::"], check=False) for rank in range(ranks)]
    return [*found, *(one.stdout for one in running if one.returncode == 0)]


def runs_what_render_says(daemon: Daemon) -> None:
    rendered = json.loads(daemon.head.run([SPARKD, "render", NAME, "--format", "json"]).stdout)
    for rank in rendered["ranks"]:
        number = rank["rank"]
        # The interpreter of the script comes first in /proc; what follows is the vector that was rendered.
        assert argv(daemon, number)[-len(rank["argv"]) :] == rank["argv"]
        wanted = {name: value for name, value in rank["env"].items() if name != "HF_TOKEN"}
        assert wanted.items() <= environ(daemon, number).items()
