"""What worked: listed, shown, compared, blessed, and put back into the deployment file."""

from __future__ import annotations

import difflib
import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sparkd.ctl import drift_diff
from sparkd.ctl.answers import Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.drift_values import Record, Records
from sparkd.ctl.errors import CtlError, NotConfirmed, Usage
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import Cell, clean, clock, say, table, terminal
from sparkd.model.hiding import BY_NAME


class NotWritten(CtlError):
    """The deployment file could not be put back."""


def show_list(api: Api, name: str | None, as_json: bool) -> int:
    raw = api.get(_path(api, name))
    found = read(Records, raw)
    if as_json:
        print(json.dumps(raw, indent=2))
    elif not found.known_good:
        say(f"Nothing is recorded of {found.deployment} yet: it is {_when(found.deployment)}.")
    else:
        now = read(Status, api.get("/api/v1/status")).at
        rows = [_row(one, now) for one in found.known_good]
        print("\n".join(table(("GENERATION", "RECORDED", "COMPARED WITH", "MEASURED", "NOTE"), rows, terminal(), "")))
    if not as_json and isinstance(found.unusable, dict):
        for file, why in found.unusable.items():
            say(f"{file} is no record: {clean(str(why))}.", sys.stderr)
    return 0


def _when(name: str) -> str:
    return f"when it has answered for a while, or at once with `sparkd ctl bless {name}` while it serves"


def _row(one: Record, now: float) -> list[Cell]:
    used = ("yes, blessed" if one.pinned else "yes") if one.reference else "-"
    return [
        Cell(str(one.generation), "bold"),
        Cell(clean(_local(one.recorded, now))),
        Cell(used, "green" if one.reference else ""),
        Cell(", ".join(_measured(one.measured)) or "-"),
        Cell(" ".join(clean(line) for line in (one.note or "-").splitlines())),
    ]


def _local(recorded: str, now: float) -> str:
    """Of a file that people may edit: what is no time is shown as it is written."""
    try:
        return clock(datetime.fromisoformat(recorded).timestamp(), now)
    except ValueError:
        return recorded or "?"


def _measured(found: object) -> Iterator[str]:
    if not isinstance(found, dict):
        return
    rates = found.get("decode_tokens_per_second")
    if isinstance(rates, dict):
        yield from (clean(f"{_tenths(value)} tok/s {when}") for when, value in rates.items())
    if found.get("kv_cache_tokens"):
        yield f"{found['kv_cache_tokens']} tokens of KV cache"


def _tenths(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else str(value)


def show_one(api: Api, name: str | None, generation: int | None, as_json: bool) -> int:
    raw = _record(api, name, generation)
    text = read(Record, raw).text.rstrip()
    print(json.dumps(raw, indent=2) if as_json else "\n".join(map(clean, text.splitlines())))
    return 0


def show_diff(api: Api, name: str | None, before: int, after: int, as_json: bool) -> int:
    """Exits like `ctl drift`."""
    return drift_diff.show(api.get(f"{_path(api, name)}/{before}/diff/{after}"), as_json)


def bless(api: Api, name: str | None, generation: int | None, note: str, as_json: bool) -> int:
    patient = Api(api.path, drift_diff.DRIFT_S)
    raw = patient.post(_path(api, name), {"generation": generation, "note": note})
    found = read(Record, raw)
    if as_json:
        print(json.dumps(raw, indent=2))
    else:
        say(f"Generation {found.generation} of {found.deployment} is what everything is compared with from now on.")
        for why in found.not_read:
            say(f"It does not hold {why}")
    return 0


# ------------------------------------------------------------------------------------------------------------ rollback


def roll_back(api: Api, name: str | None, generation: int | None, yes: bool, as_json: bool) -> int:
    """Writes the deployment file of that time back and keeps the present one beside it. Raises CtlError."""
    found = read(Record, _record(api, name, generation))
    said = f"generation {found.generation} of {found.deployment}"
    if found.deployment_file is None:
        raise Usage(
            f"the deployment file of {said} was not kept", f"what it ran: sparkd ctl known-good show {found.deployment}"
        )
    path = Path(os.path.realpath(found.file))  # a link into a repository stays one
    again = f"sudo sparkd ctl known-good rollback {found.deployment} --generation {found.generation}"
    now, backup = _text(path, again), None
    if now != found.deployment_file:
        _confirm(path, now or "", found.deployment_file, said, yes)
        if _text(path, again) != now:
            raise NotConfirmed(f"{path} was changed by another program meanwhile, nothing was written", "ask again")
        backup = _write(path, found.deployment_file, again)
    if as_json:
        print(json.dumps({"schema": 1, "deployment": found.deployment, "generation": found.generation,
                          "file": str(path), "backup": None if backup is None else str(backup)}, indent=2))  # fmt: skip
    elif now == found.deployment_file:
        say(f"{path} is already that of {said}; nothing was changed. What runs may still be another: "
            f"`sparkd ctl drift {found.deployment} --against wanted`")  # fmt: skip
    else:
        kept = f"; the one before is {backup}" if backup is not None else ""
        say(f"{path} is that of {said} again{kept}. It counts from the next start on:")
        say(f"`sparkd ctl reload` and `sparkd ctl restart {found.deployment}`", indent="  ")
    return 0


def _text(path: Path, again: str) -> str | None:
    """What the file says, line ends and all; None where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise NotWritten(f"{path} cannot be read: {error}", again) from None


def _confirm(path: Path, now: str, then: str, said: str, yes: bool) -> None:
    lines = difflib.unified_diff(now.splitlines(), then.splitlines(), str(path), said, lineterm="")
    term = terminal(sys.stderr)
    colours = {"+": "green", "-": "red"}
    veil = BY_NAME  # the value of a secret belongs into the file alone, not on the screen
    lines = (veil.text(clean(line)) for line in lines)
    print("\n".join(term.paint(line, colours.get(line[:1], "")) for line in lines), file=sys.stderr)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmed(f"not confirmed, nothing was changed: {path}", "there is no terminal to ask on; add --yes")
    try:
        agreed = click.confirm(f"Write the file of {said} back?", default=False, err=True)
    except click.Abort:
        agreed = False
        click.echo(err=True)
    if not agreed:
        raise NotConfirmed("not confirmed, nothing was changed")


def _write(path: Path, text: str, again: str) -> Path | None:
    """Whole or not at all, with the rights of the file before. The backup's name is none that is read as a deployment."""
    fresh = path.with_name(f".{path.name}.new")
    backup = None
    try:
        with fresh.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            backup = _unused(path)
            shutil.copy2(path, backup)
            about = path.stat()
            os.chmod(fresh, about.st_mode & 0o7777)
            os.chown(fresh, about.st_uid, about.st_gid)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free the disk, and ask again" if full else again
        raise NotWritten(f"{path} cannot be written: {error.strerror or error}", fix) from None
    return backup


def _unused(path: Path) -> Path:
    """A name for the file as it is now: a second one within one second takes the place of none."""
    moment = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    names = (path.with_name(f"{path.name}.{moment}{number}.bak") for number in ("", *(f"-{at}" for at in range(2, 99))))
    return next(name for name in names if not name.exists())


# --------------------------------------------------------------------------------------------------------------- asked


def _path(api: Api, name: str | None) -> str:
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    return f"/api/v1/deployments/{quote(deployment.name)}/known-good"


def _record(api: Api, name: str | None, generation: int | None) -> dict[str, Any]:
    path = _path(api, name)
    if generation is None:
        records = read(Records, api.get(path))
        used = [one.generation for one in records.known_good if one.reference]
        if not used:
            raise Usage(f"nothing is recorded of {records.deployment} yet", f"it is {_when(records.deployment)}")
        generation = used[0]
    return api.get(f"{path}/{generation}")
