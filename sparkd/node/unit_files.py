"""Unit files and the scripts that they run -> the lines and words of them that say what is started."""

from __future__ import annotations

import functools
import os
import pwd
import re
import shlex
from typing import Iterable, Iterator, Mapping

from sparkd.node import patience, regular
from sparkd.node.recognised import STARTS

MAX_BYTES = 64 << 10
MAX_SCRIPTS, MAX_WORDS, MAX_DROP_INS = 8, 600, 100
LINGER = "/var/lib/systemd/linger"
"""Has a file for every user whose own systemd starts with the node."""
EXEC = re.compile(r"\s*(Exec(?:Start|Stop)(?:Pre|Post)?)\s*=\s*(.*)")
CONDITIONS = ("ConditionPathExists", "ConditionPathIsDirectory", "ConditionFileIsExecutable", "ConditionFileNotEmpty")
PLAIN_PATH = re.compile(r"/[^%|]*")
"""No specifier in it; with a `|` in front one of several conditions is enough."""
PATH = re.compile(r"(?<![\w$}])/[^\s;'\"|&<>=]+")
WORDS = re.compile(
    rf"{STARTS}|spark(?:run|ring)"
    r"|docker (?:run|start|exec|compose)|--(?:master-)?port[= ]\S+|--served-model-name[= ]\S+|--model(?:-path)?[= ]\S+"
    r"|(?<=serve )(?!-)\S+"
)
"""What tells of a launch script which engine it starts, and whether it is the same as ours; nothing that may be a secret."""


def commands(files: Iterable[str]) -> Iterator[str]:
    """The `ExecStart=…` lines of a unit and its drop-ins, each on one line, quotes as written."""
    for path in files:
        for line in _logical(_text(path)):
            match = EXEC.fullmatch(line)
            if match:
                yield f"{match.group(1)}={match.group(2).strip()}"


def keys(files: Iterable[str]) -> dict[str, list[str]]:
    """Key -> its values in all files together; an empty one takes back what was said before."""
    found: dict[str, list[str]] = {}
    for path in files:
        for line in _logical(_text(path)):
            key, equals, value = line.strip().partition("=")
            if equals and key.strip().isalnum():
                values = found.setdefault(key.strip(), [])
                if value.strip():
                    values.append(value.strip())
                else:
                    values.clear()
    return found


def unmet(files: Iterable[str]) -> Iterator[str]:
    """Conditions about plain paths that do not hold now: systemd would pass the unit over, and call that no failure."""
    asked = [(key, value) for key, values in keys(files).items() if key in CONDITIONS for value in values]
    plain = [(key, value, value.lstrip("!")) for key, value in asked if PLAIN_PATH.fullmatch(value.lstrip("!"))]
    there = patience.looked((path for _, _, path in plain), os.path.exists)
    yield from (f"{key}={value}" for key, value, path in plain if there[path] is value.startswith("!"))


def _logical(text: str) -> Iterator[str]:
    """Lines, those that end with a backslash joined; comments may stand between them."""
    joined = ""
    for line in text.splitlines():
        if line.lstrip()[:1] in ("#", ";"):
            continue
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        yield joined
        joined = ""


def environment(values: Iterable[str], files: Iterable[str]) -> Mapping[str, str]:
    """What `Environment=` sets, and over it what the environment files say."""
    found: dict[str, str] = {}
    for text in [*values, *(line for path in files for line in _text(path).splitlines())]:
        if text.lstrip()[:1] not in ("#", ";"):
            for word in _split(text):
                name, equals, value = word.partition("=")
                if equals:
                    found[name] = value
    return found


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is never closed
        return text.split()


def scripts(text: str) -> Iterator[tuple[str, str]]:
    """(path, words about engines) for each script on this node that the text names."""
    for path, said in patience.looked(list(dict.fromkeys(PATH.findall(text)))[:MAX_SCRIPTS], _text).items():
        if said is None:
            continue  # below a dead mount: nothing is known of it
        if said.startswith("#!") or path.endswith((".sh", ".bash")):
            found = dict.fromkeys(match.group(0) for match in WORDS.finditer(said.replace("\\\n", " ")))
            if found:
                yield path, " ".join(found)[:MAX_WORDS]


def _text(path: str) -> str:
    """The beginning of a regular file, nothing for what is none or cannot be read."""
    try:
        return regular.beginning(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:  # gone meanwhile, or on a mount that is dead: nothing is known of it
        return ""


def of_people(named: Iterable[str]) -> Iterator[dict[str, list[str]]]:
    """Enabled services of the named users, and of those whose own systemd starts with the node.

    By their files: asking such a systemd means to log in as its user, which a probe must not do. What runs is not known.
    """
    try:
        lingering = regular.names(LINGER)
    except FileNotFoundError:
        lingering = []
    for name in sorted({*named, *lingering}):
        try:
            home = pwd.getpwnam(name).pw_dir
        except KeyError:
            continue
        yield from patience.answered(home, functools.partial(_home, name))


def _home(name: str, home: str) -> list[dict[str, list[str]]]:
    return list(_of_home(name, home))


def _of_home(name: str, home: str) -> Iterator[dict[str, list[str]]]:
    folder = f"{home}/.config/systemd/user"
    enabled = {os.path.basename(path) for path in regular.matching(folder, "*.wants/*")}
    timed = {f"{unit[: -len('.timer')]}.service" for unit in enabled if unit.endswith(".timer")}
    for unit in sorted({unit for unit in enabled if unit.endswith(".service")} | timed):
        path = f"{folder}/{unit}"
        if not os.path.isfile(path):
            continue
        drop_ins = regular.matching(f"{folder}/{unit}.d", "*.conf", MAX_DROP_INS)
        said = keys([path, *drop_ins])
        yield {
            "Id": [unit],
            "Scope": [f"user:{name}:{home}"],
            "UnitFileState": ["enabled"],
            "FragmentPath": [path],
            "DropInPaths": [" ".join(drop_ins)],
            "Environment": said.get("Environment", []),
            "EnvironmentFiles": [value.lstrip("-") for value in said.get("EnvironmentFile", [])],
            **{key: said[key][-1:] for key in ("Restart", "WorkingDirectory") if said.get(key)},
        }
