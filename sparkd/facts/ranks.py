"""`ranks` probe -> ranks that run as units of systemd, as Container values. No text means that there is none."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sparkd.facts import Fact, FactError, count, lines
from sparkd.model.rank import IDENTITY
from sparkd.model.snapshot import Container

_NAME = re.compile(r"(sparkd-(.+)-([0-9]{1,4}))\.service")
_NUMBER = re.compile(r"[0-9]{1,18}")
_KILLED = frozenset(("2", "3"))
"""CLD_KILLED and CLD_DUMPED of waitid(2): then the status is the number of a signal."""
_RUNS = frozenset(("activating", "active", "deactivating", "reloading", "refreshing", "maintenance"))


def parse(text: str) -> tuple[Container, ...]:
    """Units that systemd forgot while it was asked have no state: they are not there."""
    units: list[dict[str, str]] = [{}]
    for line in lines(text):
        if line:
            name, equals, value = line.partition("=")
            if not equals:
                raise FactError(f"unexpected line {line[:80]!r}")
            units[-1][name] = value
        elif units[-1]:
            units.append({})
    return tuple(_container(unit) for unit in units if unit and unit.get("LoadState") != "not-found")


def _container(unit: dict[str, str]) -> Container:
    """Without labels the name tells whose it would be: then it is no rank of ours, and blocks one."""
    match = _NAME.fullmatch(unit.get("Id", ""))
    if match is None:
        raise FactError(f"{unit.get('Id', 'nothing')[:80]!r} is no rank")
    try:
        labels = _labels(unit["LogExtraFields"])
        owner, deployment, generation, rank = (labels.get(name) for name in IDENTITY)
        runs = unit["ActiveState"] in _RUNS and unit["SubState"] != "exited"
        return Container(
            id=unit["InvocationID"],
            name=match[1],
            deployment=deployment or match[2],
            rank=count(rank or match[3]),
            generation=count(generation or "0"),
            owner=owner or "",
            spec=labels.get("SPARKD_SPEC", ""),
            state="running" if runs else "exited",
            exit_code=None if runs else _exit_code(unit["ExecMainCode"], unit["ExecMainStatus"]),
            oom_killed=unit["Result"] == "oom-kill" or unit.get("OomKills", "0") != "0",
            pid=count(unit["ExecMainPID"]) if runs else 0,
            started_at=_time(unit["ExecMainStartTimestamp"]),
            finished_at="" if runs else _time(unit["ExecMainExitTimestamp"]),
            runtime="process",
        )
    except KeyError as missing:
        raise FactError(f"{match[1]} has no {missing.args[0]}") from None
    except ValueError as odd:
        raise FactError(f"{match[1]}: {odd}") from None


def _labels(said: str) -> dict[str, str]:
    """None in what another one's unit has there, in whatever form: it must not blind sparkd to the ranks beside it."""
    labels = {name: value for name, _, value in (pair.partition("=") for pair in said.split())}
    numbers = (labels.get(name, "0") for name in IDENTITY[2:])
    return labels if all(_NUMBER.fullmatch(number) for number in numbers) else {}


def _exit_code(code: str, status: str) -> int:
    """As a shell and Docker say it: 128 and the signal for a rank that was killed."""
    return count(status) + (128 if code in _KILLED else 0)


def _time(text: str) -> str:
    """`Sat 2026-11-28 02:58:04.811365 UTC` -> RFC 3339 like Docker's, so that both sort alike; empty for `not yet`."""
    if text in ("", "n/a"):
        return ""
    date, clock, zone = text.split()[-3:]
    if zone != "UTC":
        raise ValueError(f"{text!r} is no time in UTC")
    at = datetime.fromisoformat(f"{date}T{clock}").replace(tzinfo=UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


RANKS = Fact("ranks", parse)
