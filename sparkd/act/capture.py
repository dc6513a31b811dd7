"""Evidence before teardown: the logs and the inspect of every rank, written where a person finds them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from sparkd.act.hands import ActionFailed, Hands, at_once
from sparkd.base import clock, files
from sparkd.base.redact import Redactor
from sparkd.model.action import CaptureEvidence, Target
from sparkd.model.failure_code import FailureCode
from sparkd.runtimes.logs import LogLine

LOG_LINES = 3000
TAIL = 4
"""Lines of each rank's log that `why` shows."""
_ANSWERED = re.compile(r'"GET /|"[A-Z]+ /\S* HTTP/[0-9.]+" [23]\d\d')
"""The engine's access line of a look at it, however that ended, or of a request that it answered well."""
KEEP = 20
"""Captures kept per deployment; the oldest go first."""


async def capture(hands: Hands, action: CaptureEvidence) -> dict[str, Any]:
    """Write one folder for this generation. Returns its path and each rank's last words. Raises ActionFailed."""
    stamp = datetime.fromtimestamp(clock.wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = hands.captures / hands.deployment.name / f"{stamp}-g{action.generation}-{action.reason}"
    redact = await files.aside(partial(Redactor.of, hands.deployment))
    try:
        await anyio.to_thread.run_sync(_prepare, folder)
    except OSError as error:
        raise ActionFailed(
            f"captures cannot be written to {folder.parent}: {error.strerror}", FailureCode.DISK
        ) from error

    last: dict[str, list[str]] = {}

    async def one(target: Target) -> None:
        runtime = hands.runtimes[target.node][target.runtime]
        lines = await runtime.logs(target.container, LOG_LINES, None)
        text = "".join(f"{_stamp(line.at)} {line.stream} {line.text}\n" for line in lines)
        last[f"rank {target.rank} on {target.node}"] = [redact(line.text) for line in _telling(lines)]
        inspected = await runtime.inspect(target.container)
        await anyio.to_thread.run_sync(_write, folder, target, redact, text, inspected)

    await at_once(action.targets, one, lambda target, error: ActionFailed(str(error), FailureCode.CAPTURE, target.node))
    return {"folder": str(folder), "last": last}


def _telling(lines: Sequence[LogLine]) -> list[LogLine]:
    """The last lines that say something: requests answered well and empty lines do not, nor does systemd's own word of an
    end. Of a served group they are nearly all that a head says: four of them told nothing of why its peer died."""
    said = [one for one in lines if one.stream != "systemd" and one.text.strip() and not _ANSWERED.search(one.text)]
    return said[-TAIL:]


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    older = sorted(folder.parent.iterdir(), key=lambda one: one.name)
    for one in older[:-KEEP]:
        shutil.rmtree(one)


def _write(folder: Path, target: Target, redact: Redactor, log: str, inspected: Any) -> None:
    """A megabyte of log takes a while to look through: in the thread that writes it, too."""
    shown = json.dumps(redact.tree(inspected), indent=1)
    try:
        (folder / f"rank{target.rank}-{target.node}.log").write_text(redact(log), "utf-8")
        (folder / f"rank{target.rank}-{target.node}.inspect.json").write_text(shown, "utf-8")
    except OSError as error:
        raise ActionFailed(f"{folder}: {error.strerror}", FailureCode.DISK, target.node) from error


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
