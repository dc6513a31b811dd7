"""Docker's answers about containers -> Container values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkd.model.rank import LABEL_DEPLOYMENT, LABEL_GENERATION, LABEL_OWNER, LABEL_RANK, LABEL_SPEC, is_named_so
from sparkd.model.snapshot import Container

NAME = "sparkd-"
MAX_COUNT = 1 << 32
"""No pid and no exit code is as large; JSON may hold thousands of digits."""


def ours(labels: Mapping[str, str] | None, names: Sequence[str] | None) -> bool:
    """Of an entry of the list: named like a rank of any sparkd's, since then it blocks our start.

    One that is being removed may have no names any more, Docker writes null: then its labels tell.
    """
    return any(name.startswith(f"/{NAME}") for name in names or ()) or (
        not names and LABEL_DEPLOYMENT in (labels or {})
    )


def container(inspected: Mapping[str, Any]) -> Container:
    """From `GET /containers/ID/json`. Without labels of its own the name tells: rank -1 when it cannot be told.

    Raises LookupError, TypeError or AttributeError for what is no such answer.
    """
    state, name = inspected["State"], _text(inspected["Name"]).removeprefix("/")
    labels = {_text(key): _text(value) for key, value in (inspected["Config"].get("Labels") or {}).items()}
    if name and not is_named_so(name, labels):
        labels = {}
    status = _text(state["Status"])
    deployment, rank = _named(name)
    return Container(
        id=_text(inspected["Id"]),
        name=name,
        deployment=labels.get(LABEL_DEPLOYMENT, deployment),
        rank=_number(labels.get(LABEL_RANK), rank),
        generation=_number(labels.get(LABEL_GENERATION), 0),
        owner=labels.get(LABEL_OWNER, ""),
        spec=labels.get(LABEL_SPEC, ""),
        state=status,
        exit_code=None if status in ("created", "running", "paused") else _count(state["ExitCode"]),
        oom_killed=bool(state["OOMKilled"]),
        error=_text(state["Error"]),
        pid=_count(state["Pid"]),
        started_at=_time(_text(state["StartedAt"])),
        finished_at=_time(_text(state["FinishedAt"])),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {str(value)[:80]!r}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not -MAX_COUNT < value < MAX_COUNT:
        raise TypeError(f"no number: {str(value)[:80]!r}")
    return value


def _named(name: str) -> tuple[str, int]:
    rest = name.removeprefix(NAME)
    deployment, _, rank = rest.rpartition("-")
    return (deployment, int(rank)) if deployment and _is_number(rank) else (rest, -1)


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and _is_number(text) else otherwise


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _time(text: str) -> str:
    """Docker writes year 1 for `not yet`."""
    return "" if text.startswith("0001-") else text


def runs(inspected: Mapping[str, Any] | None) -> bool:
    """Docker's own word: paused and restarting count as running."""
    return inspected is not None and bool(inspected["State"]["Running"] or inspected["State"]["Restarting"])
