"""systemd -> every service that something starts by itself, or that failed, with the words of its commands as written.

The first line is `Now=` CLOCK_MONOTONIC in microseconds. Then a block of `KEY=VALUE` lines for each service, a blank line
between: what `systemctl show` says after its own merge of drop-ins, and of ours `ExecLine=KEY=TEXT` (a line of its files;
`show` forgets the quotes), `Unmet=CONDITION` (about a path, and it does not hold now), `Variable=NAME=VALUE` (only those
that a command names: the others may be secrets), `Says=PATH WORDS` (what of a script that it runs is about engines),
`Rose=` (restarts since the last look) and `Scope=user:NAME:HOME` for a unit of a person's own systemd. Left out are units
of the distribution that are well and have nothing to do with engines, and ranks of sparkd.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Iterator, Mapping

from sparkd.node import arguments, command, unit_files, units
from sparkd.node.probes import users
from sparkd.node.recognised import LOOSELY
from sparkd.node.refusal import Refusal

EXECS = ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost")
PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "FragmentPath", "DropInPaths"),
    *("NRestarts", "ExecMainCode", "ExecMainStatus", "ExecMainStartTimestampMonotonic"),
    *("ConditionResult", "ConditionTimestampMonotonic"),
    *("Restart", "RestartUSec", "RestartSteps", "RestartMaxDelayUSec", "StartLimitBurst", "StartLimitIntervalUSec"),
    *(
        "User",
        "WorkingDirectory",
        "RootDirectory",
        "RootImage",
        "TriggeredBy",
        "Triggers",
        "Environment",
        "EnvironmentFiles",
    ),
    *EXECS,
)
SHOWN = frozenset(PROPERTIES) - {"Environment", "Triggers"}
FOLDERS = ("/etc/systemd/system", "/run/systemd/system")
NAME = re.compile(r"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]+)?\.(service|timer)")
"""Of one unit; a template by itself is none."""
VENDOR = ("/usr/lib/systemd/", "/lib/systemd/", "/run/systemd/generator", "/usr/local/lib/systemd/")
ABOUT_ENGINES = re.compile(rf"docker (?!events)|podman|nerdctl|{LOOSELY}|spark(?:run|ring)|unattended-upgrade")
"""What keeps a unit of the distribution in the list."""
MAX_UNITS, MAX_VALUE = 300, 64 << 10
"""A longer line is left out: half a line cannot be understood."""

_RESTARTS: dict[str, int] = {}
"""Unit -> NRestarts at the last look."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    people = arguments.items(args, "users", users.NAME)
    shown = _shown(deadline_s)
    timers = {unit["Id"][0] for unit in shown if unit["Id"][0].endswith(".timer") and _starts(unit)}
    kept = [unit for unit in shown if _is_kept(unit, timers)]
    _note_rises(kept)
    blocks = [_block(unit) for unit in kept[:MAX_UNITS]]
    blocks += [_block(unit) for unit in unit_files.of_people(people)]
    return f"Now={time.monotonic_ns() // 1000}\n" + "".join(f"\n{block}" for block in blocks)


def _note_rises(kept: list[dict[str, list[str]]]) -> None:
    """Between two looks a loop shows even where both of them catch it running."""
    now = {_first(unit, "Id"): int(_first(unit, "NRestarts") or 0) for unit in kept}
    for unit in kept:
        name = _first(unit, "Id")
        unit["Rose"] = [str(max(0, now[name] - _RESTARTS.get(name, now[name])))]
    _RESTARTS.clear()
    _RESTARTS.update(now)


def _shown(deadline_s: float) -> list[dict[str, list[str]]]:
    """What runs or failed, what is enabled, and what a timer starts; each once.

    Links tell what is enabled: `systemctl list-unit-files` reads every file there is, which takes a second.
    """
    links = (os.path.basename(path) for folder in FOLDERS for path in glob.glob(f"{folder}/*.wants/*"))
    enabled = sorted({name for name in links if NAME.fullmatch(name)})
    ends = time.monotonic() + deadline_s
    found = _show(["*.service", "*.timer", *enabled], deadline_s)
    timed = {name for unit in found.values() for name in _first(unit, "Triggers").split() if NAME.fullmatch(name)}
    if timed - found.keys():
        found.update(_show(sorted(timed - found.keys()), max(0.1, ends - time.monotonic())))
    return list(found.values())


def _show(names: list[str], deadline_s: float) -> dict[str, dict[str, list[str]]]:
    """A pattern stands for units that are active or failed."""
    argv = ["systemctl", "show", "-p", ",".join(PROPERTIES), "--", *names]
    blocks = map(_properties, _asked(argv, deadline_s).split("\n\n"))
    return {unit["Id"][0]: unit for unit in blocks if unit.get("Id")}


def _asked(argv: list[str], deadline_s: float) -> str:
    try:
        finished = command.run(argv, deadline_s)
    except FileNotFoundError:
        raise Refusal("failed", "there is no systemctl on this node") from None
    if finished.status and not finished.output:
        raise Refusal("failed", f"{argv[0]} {argv[1]}: {finished.errors.strip() or f'exit status {finished.status}'}")
    return finished.output


def _properties(block: str) -> dict[str, list[str]]:
    """Key -> its values; a value with a line break in it goes on in the next line."""
    found: dict[str, list[str]] = {}
    last: list[str] = []
    for line in block.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in PROPERTIES:
            last = found.setdefault(key, [])
            last.append(value)
        elif last:
            last[-1] += f" {line.strip()}"
    return found


def _first(unit: Mapping[str, list[str]], key: str) -> str:
    return unit.get(key, [""])[0]


def _starts(unit: Mapping[str, list[str]]) -> bool:
    return _first(unit, "UnitFileState").startswith("enabled") or _first(unit, "ActiveState") == "active"


def _is_kept(unit: Mapping[str, list[str]], timers: set[str]) -> bool:
    name, active = _first(unit, "Id"), _first(unit, "ActiveState")
    if not name.endswith(".service") or units.NAME.fullmatch(name[: -len(".service")]):
        return False
    if _first(unit, "LoadState") != "loaded" or _first(unit, "RootDirectory") or _first(unit, "RootImage"):
        return False
    starts = _first(unit, "UnitFileState").startswith("enabled") or timers & set(_first(unit, "TriggeredBy").split())
    return bool(starts or active != "inactive") and not _is_dull(unit)


def _is_dull(unit: Mapping[str, list[str]]) -> bool:
    """Is it a unit of the distribution, unchanged, not failed, and without a word about engines?"""
    files = [_first(unit, "FragmentPath"), *_first(unit, "DropInPaths").split()]
    if not all(path.startswith(VENDOR) for path in files):
        return False
    if _first(unit, "ActiveState") not in ("active", "inactive") or _first(unit, "NRestarts") not in ("", "0"):
        return False
    commands = [value for key in EXECS for value in unit.get(key, ())]
    if ABOUT_ENGINES.search(" ".join([_first(unit, "Id"), *commands])):
        return False
    programs = re.findall(r"\{ path=(/.*?) ; argv", " ".join(commands))
    return all(map(os.path.exists, programs))


def _block(unit: Mapping[str, list[str]]) -> str:
    lines = [f"{key}={value}" for key, values in unit.items() if key in SHOWN for value in values]
    files = [_first(unit, "FragmentPath"), *_first(unit, "DropInPaths").split()]
    written = list(unit_files.commands(filter(None, files)))
    lines += [f"{key}={value}" for key in ("Scope", "Rose") for value in unit.get(key, ())]
    lines += [f"ExecLine={line}" for line in written]
    lines += [f"Unmet={condition}" for condition in unit_files.unmet(filter(None, files))]
    text = " ".join([*written, *(value for key in EXECS for value in unit.get(key, ()))])
    lines += [f"Variable={name}={value}" for name, value in _variables(unit, text)]
    lines += [f"Says={path} {words}" for path, words in unit_files.scripts(text)]
    return "".join(f"{line}\n" for line in map(_plain, lines) if len(line) <= MAX_VALUE)


def _plain(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line)


def _variables(unit: Mapping[str, list[str]], text: str) -> Iterator[tuple[str, str]]:
    named = set(re.findall(r"\$\{?([A-Za-z_]\w*)", text))
    if named:
        files = [value.partition(" (")[0] for value in unit.get("EnvironmentFiles", ())]
        found = unit_files.environment(unit.get("Environment", ()), files)
        yield from sorted((name, value) for name, value in found.items() if name in named)
