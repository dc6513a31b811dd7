"""`units` probe -> the services of a node that something starts by itself, or that failed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkd.facts import Args, Fact, FactError, Question, count
from sparkd.model.printed import REAL, WHOLE

EXECS = ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost")
MADE_BY_SYSTEMD = ("/run/", "/var/lib/", "/var/cache/", "/var/log/", "/tmp/", "/var/tmp/")
"""Working folders there may be made when the unit starts (RuntimeDirectory=, StateDirectory=, PrivateTmp= …)."""
_BLOCK = re.compile(rf"Now=({WHOLE})\n((?:\n(?:[A-Z]\w*=[^\n]*\n)+)*)")
_FLAGS = re.compile(r"(?:ignore_errors|flags)=([^;]*)")
_SPECIFIER = re.compile(r"%([a-zA-Z%])")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_SPAN = re.compile(rf"({REAL})(us|ms|s|min|h|d|w|month|y)")
LONGEST_SPAN = 100
"""Characters of a time: systemd writes some ten."""
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "min": 60,
    "h": 3600,
    "d": 86400,
    "w": 604800,
    "month": 2629800,
    "y": 31557600,
}


@dataclass(frozen=True, slots=True)
class Command:
    """One Exec line after systemd's merge: `words` as the program gets them, as far as that can be known."""

    key: str
    """ExecStart, ExecStartPre …"""
    words: tuple[str, ...]
    tolerated: bool = False
    """It may fail (a dash in front)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A service. What runs of a person's own systemd is not known: its numbers are those of a unit that never ran."""

    name: str
    user: str | None = None
    """Whose own systemd it belongs to; None for the node's."""
    active: str = ""
    sub: str = ""
    file_state: str = ""
    result: str = ""
    restarts: int = 0
    """NRestarts: automatic restarts since it was last started by hand, or since boot."""
    rose: int = 0
    """Restarts since the last look at the node."""
    exit_code: int = 0
    started_ago_s: float | None = None
    """Since its main process was last started, None before the first time."""
    restart: str = "no"
    restart_s: float = 0.1
    """The pause before an automatic restart (before the first, where it grows)."""
    limit_starts: int = 0
    limit_s: float = 0.0
    """systemd gives up at more than `limit_starts` within this; 0 means never, and openly so."""
    file: str = ""
    drop_ins: tuple[str, ...] = ()
    workdir: str | None = None
    triggered_by: tuple[str, ...] = ()
    """What else starts it: timers, sockets, paths."""
    skipped: bool = False
    """A condition of the unit did not hold when it was last to be started (never looked at reads `no` as well), or names a
    path that is not there now."""
    commands: tuple[Command, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """(path, key) of what systemd itself needs before it starts anything: the working folder, environment files."""
    says: tuple[tuple[str, str], ...] = ()
    """(script on the node, what of it is about engines)."""

    @property
    def starts_itself(self) -> bool:
        """Enabled, on a timer, in the middle of its restarts, or made by a generator (a Quadlet of podman's, an init script)
        and running: it starts by itself."""
        timed = any(name.endswith(".timer") for name in self.triggered_by)
        generated = self.generated and self.active != "inactive"
        return self.file_state.startswith("enabled") or timed or generated or self.active == "activating"

    @property
    def generated(self) -> bool:
        """Nothing to disable: there is no link that would start it."""
        return self.file_state == "generated"

    @property
    def loops(self) -> bool:
        return self.restart not in ("no", "on-success")

    @property
    def limit_unreachable(self) -> bool:
        """The pause alone makes `limit_starts` starts last longer than the limit looks back (evidence 14b)."""
        return 0 < self.limit_s <= self.limit_starts * self.restart_s

    @property
    def text(self) -> str:
        """All that is known of what it does, for a look at single words."""
        words = (word for command in self.commands for word in command.words)
        return " ".join([self.name, *words, *(said for _, said in self.says)])

    def systemctl(self, node: str, verb: str) -> str:
        """The command that a person types for it; a backslash of an escaped name must not be the shell's."""
        if self.user is None:
            return f"on {node}: systemctl {verb} {shlex.quote(self.name)}"
        return f"on {node} as {self.user}: systemctl --user {verb} {shlex.quote(self.name)}"


def parse(text: str) -> tuple[Unit, ...]:
    match = _BLOCK.fullmatch(text)
    if match is None:
        raise FactError("empty" if not text else "no Now= and blocks of KEY=VALUE, or cut off")
    now_us = int(match[1])
    try:
        return tuple(_unit(block, now_us) for block in match[2].strip("\n").split("\n\n") if block)
    except (KeyError, ValueError) as error:
        raise FactError(f"a unit without {error}") from None


def _unit(block: str, now_us: int) -> Unit:
    found: dict[str, list[str]] = {}
    for line in block.split("\n"):
        key, _, value = line.partition("=")
        found.setdefault(key, []).append(value)
    one = {key: values[0] for key, values in found.items()}
    _, _, person = one.get("Scope", "").partition(":")
    user, _, home = person.partition(":")
    variables = dict(value.split("=", 1) for value in found.get("Variable", ()))
    started_us = _count(one, "ExecMainStartTimestampMonotonic")
    return Unit(
        name=one["Id"],
        user=user or None,
        active=one.get("ActiveState", ""),
        sub=one.get("SubState", ""),
        file_state=one.get("UnitFileState", ""),
        result=one.get("Result", ""),
        restarts=_count(one, "NRestarts"),
        rose=_count(one, "Rose"),
        exit_code=_count(one, "ExecMainStatus"),
        started_ago_s=(now_us - started_us) / 1e6 if started_us else None,
        restart=one.get("Restart", "no"),
        restart_s=timespan(one.get("RestartUSec", "100ms")),
        limit_starts=_count(one, "StartLimitBurst"),
        limit_s=timespan(one.get("StartLimitIntervalUSec", "0")),
        file=one.get("FragmentPath", ""),
        drop_ins=tuple(one.get("DropInPaths", "").split()),
        workdir=(one.get("WorkingDirectory") or "").lstrip("!-").replace("%h", home or "%h") or None,
        triggered_by=tuple(one.get("TriggeredBy", "").split()),
        skipped="Unmet" in one or one.get("Result") == "exec-condition" or _was_skipped(one),
        commands=tuple(_commands(found, variables) if user == "" else _of_person(found, variables, home)),
        files=tuple(_files(found)),
        says=tuple((path, said) for path, _, said in (value.partition(" ") for value in found.get("Says", ()))),
    )


def _count(one: Mapping[str, str], key: str) -> int:
    return count(one.get(key) or "0")


def _was_skipped(one: Mapping[str, str]) -> bool:
    return one.get("ConditionResult") == "no" and one.get("ConditionTimestampMonotonic", "0") != "0"


def _files(found: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    for folder in found.get("WorkingDirectory", ()):
        if folder.startswith("/") and not folder.startswith(MADE_BY_SYSTEMD):
            yield folder, "WorkingDirectory"
    for value in found.get("EnvironmentFiles", ()):
        path, _, errors = value.partition(" (")
        if errors == "ignore_errors=no)":
            yield path, "EnvironmentFile"


def _commands(found: Mapping[str, list[str]], variables: Mapping[str, str]) -> Iterator[Command]:
    """`show` knows which lines count and what specifiers mean, the files know the quotes."""
    lines = [value.split("=", 1) for value in found.get("ExecLine", ())]
    for key in EXECS:
        written = [words for name, line in lines if name == key for words in _written(line)]
        for shown in found.get(key, ()):
            parts = _exec(shown)
            if parts is None:
                raise ValueError(f"a known form of {key}")
            path, argv, flags = parts
            words = next(filter(None, (_filled(words, argv) for words in written)), argv.split())
            tolerated = flags == "yes" or "ignore-failure" in flags
            yield Command(key, _expanded([path or " ".join(words[:1]), *words[1:]], variables), tolerated)


def _exec(shown: str) -> tuple[str, str, str] | None:
    """Path, words and flags of what `show` prints of an Exec line; None for another form. No pattern: a person's command may
    hold all of these marks some thousand times, and a pattern would try each with each."""
    path, _, rest = shown.removeprefix("{ path=").partition(" ; argv[]=")
    argv, _, flags = rest.rpartition(" ; start_time=")[0].rpartition(" ; ")
    match = _FLAGS.fullmatch(flags)
    whole = shown.startswith("{ path=") and shown.endswith("}")
    return (path, argv, match[1]) if whole and match is not None else None


def _of_person(found: Mapping[str, list[str]], variables: Mapping[str, str], home: str) -> Iterator[Command]:
    """Unmerged lines: an empty one takes back the values before it."""
    merged: dict[str, list[str]] = {}
    for value in found.get("ExecLine", ()):
        key, _, line = value.partition("=")
        values = merged.setdefault(key, [])
        if line:
            values.append(line)
        else:
            values.clear()
    for key in EXECS:
        for line in merged.get(key, ()):
            prefix = line[: len(line) - len(line.lstrip("-@:+!"))]
            for words in _written(line):
                known = [word.replace("%h", home).replace("%%", "%") for word in words]
                yield Command(key, _expanded(known, variables), "-" in prefix)


def _written(line: str) -> Iterator[list[str]]:
    """The words of a line as it is in the file; a `;` by itself ends a command."""
    text = line.lstrip("-@:+!")
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed
        words = text.split()
    while words:
        end = words.index(";") if ";" in words else len(words)
        yield words[:end]
        words = words[end + 1 :]


def _filled(words: list[str], shown: str) -> list[str] | None:
    """The words with what `shown` has in place of specifiers; None where they are not the same command."""
    first, *literals = _SPECIFIER.split(" ".join(words))[::2]
    if not shown.startswith(first) or (not literals and shown != first):
        return None
    values, begun = [], len(first)
    for at, literal in enumerate(literals, 1):
        # Each as early as it can be, the last where the text ends: no pattern, which would try them all with each other.
        end = shown.find(literal, begun) if at < len(literals) else len(shown) - len(literal)
        if end < begun or not shown.endswith(literal, begun, end + len(literal)):
            return None
        values.append(shown[begun:end])
        begun = end + len(literal)
    filling = iter(values)
    return [_SPECIFIER.sub(lambda _: next(filling), word) for word in words]


def _expanded(words: list[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """What is not known stays as it is written, `$NAME`."""

    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[2], match[0])

    return tuple(word if " " in word else _VARIABLE.sub(value, word) for word in words)


def timespan(text: str) -> float:
    """systemd's way to write a time: `1min 30.500000s`, `100ms`, `infinity`. Raises ValueError for anything else."""
    if text == "infinity":
        return float("inf")
    found = _SPAN.findall(text[:LONGEST_SPAN])
    if "".join(f"{count}{unit}" for count, unit in found) != text.replace(" ", "") and text != "0":
        raise ValueError(f"a time in {text[:40]!r}")
    return float(sum(float(count) * _SECONDS[unit] for count, unit in found))


def _args(question: Question) -> Args:
    login = question.cluster.nodes[question.node].user
    return {"users": sorted({login, question.deployment.user or login})}


UNITS: Fact[tuple[Unit, ...]] = Fact("units", parse, _args)
