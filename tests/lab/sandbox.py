"""A root file system on disk -> commands run inside it, with this machine's pip configuration carried along.

bubblewrap instead of chroot: the mounts belong to the command and vanish with it, however it ends.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .commands import run

_BASE_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
# pip's own option names that say where packages come from and how they are reached.
_PIP_OPTIONS = ("index-url", "extra-index-url", "find-links", "cert", "constraint", "proxy", "trusted-host", "timeout",
                "default-timeout", "retries")  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A root file system, with further folders of this machine mounted into it (inside path -> (folder, writable))."""

    root: Path
    mounts: Mapping[str, tuple[Path, bool]] = field(default_factory=dict)

    def run(
        self, argv: Sequence[str], log: Path, timeout_s: float, env: Mapping[str, str] | None = None,
        binds: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Runs `argv` inside, its output into `log`. Raises LabError naming the log."""
        command = ["bwrap", "--die-with-parent", "--clearenv", "--bind", str(self.root), "/"]
        command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
        command += ["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf", *binds]
        for inside, (folder, writable) in self.mounts.items():
            command += ["--bind" if writable else "--ro-bind", str(folder), inside]
        for name, value in {**_BASE_ENVIRONMENT, **(env or {})}.items():
            command += ["--setenv", name, value]
        run([*command, "--", *argv], timeout_s=timeout_s, log=log)

    def pip(self, python: str, args: Sequence[str], log: Path, timeout_s: float) -> None:
        """Runs the pip of the interpreter `python` (a path inside) with the configuration of this machine's pip."""
        env, binds = carried_pip_configuration()
        argv = [python, "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "--no-input", *args]
        self.run(argv, log, timeout_s, env, binds)


def carried_pip_configuration() -> tuple[dict[str, str], list[str]]:
    """This machine's pip configuration as an environment, and the mounts under which its paths exist in a sandbox.

    Every path (a CA bundle, a folder of wheels, a constraints file) is shown under /run/machine, by its top folder,
    because a local index links to files beside itself.
    """
    folders: set[str] = set()

    def moved(word: str) -> str:
        scheme, path = ("file://", word.removeprefix("file://")) if word.startswith("file://") else ("", word)
        if not path.startswith("/") or not Path(path).exists():
            return word
        top = path.split("/")[1]
        folders.add(top)
        return f"{scheme}/run/machine{path}"

    settings = _pip_settings()
    env = {
        f"PIP_{name.upper().replace('-', '_')}": " ".join(moved(word) for word in value.split())
        for name, value in settings.items()
    }
    env |= {name: os.environ[name] for name in _PROXIES if name in os.environ}
    binds = [part for top in sorted(folders) for part in ("--ro-bind", f"/{top}", f"/run/machine/{top}")]
    return env, binds


def _pip_settings() -> dict[str, str]:
    listed = run([sys.executable, "-m", "pip", "config", "list"]).stdout
    found = re.findall(r"^(\S+)\.([a-z-]+)=(.*)$", listed, re.MULTILINE)
    # Environment variables are listed first but win over files, so they are read last.
    ordered = sorted(found, key=lambda entry: entry[0] == ":env:")
    settings = {
        name: str(ast.literal_eval(value))
        for section, name, value in ordered
        if section in (":env:", "global", "install") and name in _PIP_OPTIONS
    }
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    if bundle:
        settings.setdefault("cert", bundle)
    return settings
