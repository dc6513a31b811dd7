"""The words of a command -> the command within, out of the programs around it that only pass one on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from sparkd.model.rank import IDENTITY

_WITH_VALUE = {
    "sudo": "ugpChrtD",
    "env": "uCS",
    "nice": "n",
    "ionice": "cnp",
    "timeout": "sk",
    "stdbuf": "ioe",
    "taskset": "",
    "numactl": "NmCp",
    "chrt": "p",
    "exec": "a",
    "flock": "wE",
    "systemd-cat": "tp",
    "time": "fo",
    "tini": "pe",
    "dumb-init": "r",
}
"""Programs that run the rest of their words -> their short options with a value of their own."""

_LONG_WITH_VALUE = frozenset(
    (
        *("--user", "--group", "--host", "--prompt", "--close-from", "--chdir", "--chroot", "--other-user", "--role"),
        *(
            "--type",
            "--command-timeout",
            "--unset",
            "--adjustment",
            "--class",
            "--classdata",
            "--kill-after",
            "--signal",
        ),
        *(
            "--input",
            "--output",
            "--error",
            "--cpunodebind",
            "--physcpubind",
            "--membind",
            "--interleave",
            "--preferred",
        ),
        *("--timeout", "--wait", "--conflict-exit-code", "--identifier", "--priority", "--level-prefix", "--format"),
        *("--stderr-priority", "--rewrite"),
    )
)
"""Their long options whose value may be a word of its own (`--signal KILL`)."""

_POSITIONAL = {"timeout": 1, "taskset": 1, "chrt": 1, "flock": 1}
"""How many words stand between their options and the command."""

_PLAIN = ("nohup", "setsid", "command", "builtin", "catatonit", "unbuffer")

SHELLS = ("bash", "sh", "dash", "zsh", "ash")
AMBIENT = frozenset(
    (
        *("PATH", "PWD", "OLDPWD", "HOME", "SHLVL", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_ALL"),
        *IDENTITY,
        *("HOSTNAME", "DEBIAN_FRONTEND", "_", "NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"),
        *(
            "MEMORY_PRESSURE_WATCH",
            "MEMORY_PRESSURE_WRITE",
            "SUDO_COMMAND",
            "SUDO_USER",
            "SUDO_UID",
            "SUDO_GID",
            "MAIL",
        ),
        *("LC_CTYPE", "XDG_SESSION_ID", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS", "LS_COLORS"),
        *("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "DBUS_SESSION_BUS_ADDRESS", "COLUMNS", "LINES", "container"),
    )
)
"""Variables that every process has from somewhere; they say nothing about a rank."""

DOCKERS = ("docker", "podman", "nerdctl")


def program(words: Sequence[str]) -> str:
    return posixpath.basename(words[0]) if words else ""


def unwrapped(words: Sequence[str]) -> tuple[list[str], dict[str, str], bool]:
    """The command inside `sudo`, `env`, `nohup` …, the variables they set, and whether the environment is kept."""
    env: dict[str, str] = {}
    rest, kept = list(words), True
    while True:
        name = program(rest)
        if name in _PLAIN:
            rest = rest[1:]
            while rest and rest[0].startswith("-"):
                rest.pop(0)
        elif name in _WITH_VALUE:
            kept = kept and not (name == "sudo" and not {"-E", "--preserve-env"} & set(rest))
            kept = kept and not (name == "env" and {"-i", "-"} & set(rest[1:2]))
            rest = _inner(name, rest[1:], env)
        else:
            return rest, env, kept


def _inner(name: str, words: list[str], env: dict[str, str]) -> list[str]:
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--":
            break
        takes = option in _LONG_WITH_VALUE if option.startswith("--") else option[-1] in _WITH_VALUE[name]
        if takes and words:
            words.pop(0)
    words = words[_POSITIONAL.get(name, 0) :]
    while name in ("env", "sudo") and words and re.match(r"[A-Za-z_]\w*=", words[0]):
        key, _, value = words.pop(0).partition("=")
        env[key] = value
    return words
