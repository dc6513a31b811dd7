"""The words after `docker run`, `docker create` and `docker exec` -> what container, how made, running what."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkd.drift.container import created, mounted
from sparkd.drift.values import number
from sparkd.model.size import parse_size

_BARE = frozenset(
    (
        *("detach", "interactive", "tty", "rm", "privileged", "init", "read-only", "no-healthcheck", "publish-all"),
        *("oom-kill-disable", "quiet", "sig-proxy", "disable-content-trust"),
    )
)
_SHORT = {
    "d": "detach", "i": "interactive", "t": "tty", "e": "env", "v": "volume", "u": "user", "w": "workdir", "m": "memory",
    "p": "publish", "P": "publish-all", "h": "hostname", "l": "label", "c": "cpu-shares", "q": "quiet", "a": "attach",
}  # fmt: skip
_ALIASES = {"net": "network", "userns-mode": "userns"}

_READ = ("restart", "network", "ipc", "pid", "gpus", "runtime", "shm-size", "memory", "device", "cap-add", "ulimit")
_READ_TOO = ("user", "workdir", "entrypoint", "init", "privileged", "env", "env-file", "volume", "mount", "name")
_ABOUT_LOGS = ("log-driver", "log-opt", "label", "label-file", "cidfile", "attach", "quiet", "sig-proxy", "detach")
_ABOUT_ENDING = ("stop-signal", "stop-timeout", "rm", "interactive", "tty", "pull", "platform", "disable-content-trust")
_NO_MATTER = frozenset((*_READ, *_READ_TOO, *_ABOUT_LOGS, *_ABOUT_ENDING, "hostname", "publish", "publish-all"))
"""Options that are read below, or that change nothing an engine sees; all others are kept as `option NAME`."""


@dataclass(slots=True)
class Container:
    """A container as its command line describes it. `env` values of None are taken from the shell around."""

    name: str = ""
    image: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    mounts: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    env_files: list[str] = field(default_factory=list)
    node: str | None = None
    copies: dict[str, str] = field(default_factory=dict)
    """Path in the container -> file that `docker cp` put there."""


def options(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options by name, each with all its values, and the words after them."""
    found: dict[str, list[str]] = {}
    todo = list(words)
    while todo and todo[0].startswith("-") and todo[0] != "-":
        word = todo.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            todo = _short(word[1:], found, todo)
            continue
        name = _ALIASES.get(name, name)
        if not equals:
            value = "true" if name in _BARE else (todo.pop(0) if todo else "")
        found.setdefault(name, []).append(value)
    return found, todo


def _short(letters: str, found: dict[str, list[str]], todo: list[str]) -> list[str]:
    """`-itd`, `-e X=1`, `-eX=1`."""
    for at, letter in enumerate(letters):
        name = _SHORT.get(letter, letter)
        if name in _BARE:
            found.setdefault(name, []).append("true")
            continue
        rest = letters[at + 1 :].removeprefix("=")
        found.setdefault(name, []).append(rest or (todo[0] if todo else ""))
        return todo if rest else todo[1:]
    return todo


def run(words: Sequence[str]) -> Container:
    """`docker run` or `docker create`."""
    found, rest = options(words)
    container = Container(
        name=_last(found, "name") or "",
        image=rest[0] if rest else "",
        env=environment(found),
        spec=_spec(found),
        mounts=mounted([*map(_volume, found.get("volume", ())), *_mounts(found)]),
        command=rest[1:],
        env_files=found.get("env-file", []),
    )
    entry = _last(found, "entrypoint")
    if entry:
        container.command = [entry, *container.command]
    return container


def environment(found: dict[str, list[str]]) -> dict[str, str | None]:
    pairs = (word.partition("=") for word in found.get("env", ()))
    return {name: value if equals else None for name, equals, value in pairs}


def _spec(found: dict[str, list[str]]) -> dict[str, Any]:
    others = {
        f"option {name}": _one(values[0]) if len(values) == 1 else sorted(values)
        for name, values in found.items()
        if name not in _NO_MATTER
    }
    gpus = _last(found, "gpus") or ("all" if _last(found, "runtime") == "nvidia" else None)
    return {
        **created(
            privileged=_last(found, "privileged") == "true",
            network=_last(found, "network"),
            ipc=_last(found, "ipc"),
            pid=_last(found, "pid"),
            gpus=gpus,
            shm_size=_size(_last(found, "shm-size")),
            memory=_size(_last(found, "memory")),
            devices=found.get("device", []),
            cap_add=found.get("cap-add", []),
            ulimits=dict(_pair(word) for word in found.get("ulimit", ())),
            user=_last(found, "user"),
            workdir=_last(found, "workdir"),
            entrypoint=_last(found, "entrypoint"),
            restart=_last(found, "restart"),
            init=_last(found, "init") == "true",
        ),
        **others,
    }


def _one(text: str) -> Any:
    found = number(text)
    return text if found is None else found


def _last(found: dict[str, list[str]], name: str) -> str | None:
    return found[name][-1] if found.get(name) else None


def _size(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError:
        return text  # a variable that nobody sets


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _volume(word: str) -> tuple[str, str, bool]:
    """`SOURCE:TARGET[:ro,z]`, or a target alone."""
    source, colon, rest = word.partition(":")
    if not colon:
        return "", source, False
    target, _, flags = rest.partition(":")
    return source, target, "ro" in flags.split(",")


def _mounts(found: dict[str, list[str]]) -> list[tuple[str, str, bool]]:
    return [_mount(word) for word in found.get("mount", ())]


def _mount(word: str) -> tuple[str, str, bool]:
    """`--mount` is one line of CSV."""
    try:
        fields = dict(_pair(one) for one in next(csv.reader([word]), []))
    except csv.Error:  # Docker refuses it too
        fields = {}
    only = next((fields[key] for key in ("readonly", "ro") if key in fields), None)
    source = next((fields[key] for key in ("source", "src") if key in fields), "")
    target = next((fields[key] for key in ("target", "destination", "dst") if key in fields), "")
    return source, target, only is not None and only not in ("false", "0")


def fill(env: dict[str, str | None], around: Callable[[str], str]) -> dict[str, str]:
    """`-e NAME` alone takes the value that the shell around has."""
    return {name: around(name) if value is None else value for name, value in env.items()}
