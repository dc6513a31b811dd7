"""Turns what the daemon saved of failed generations into a list, or into all that is known of one of them.

Annotations must stay real types here (see `sparkd.ctl.answers`).
"""

import json
from typing import Any, NamedTuple

from sparkd.ctl.answers import Deployment, Moment, Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import Usage
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import Cell, ago, clock, labelled, say, table, terminal


class SavedLog(NamedTuple):
    rank: int
    node: str
    log_bytes: int


class Capture(NamedTuple):
    """What was saved of one generation before it was taken down."""

    generation: int
    at: Moment
    reason: str
    folder: str
    ranks: tuple[SavedLog, ...] = ()


class Captures(NamedTuple):
    folder: str
    captures: tuple[Capture, ...] = ()


HEADER = ("GENERATION", "SAVED", "WHY", "LOGS")


def show_list(api: Api, name: str | None, as_json: bool) -> int:
    deployment, raw = _ask(api, name)
    found = read(Captures, raw)
    if as_json:
        print(json.dumps(raw, indent=2))
    elif found.captures:
        now = read(Status, api.get("/api/v1/status")).at
        rows = [_row(one, now) for one in found.captures]
        print("\n".join(table(HEADER, rows, terminal())))
        last = found.captures[-1].generation
        say(f"See one with: `sparkd ctl logs {deployment.name} --generation {last}`. On the head: {found.folder}")
    else:
        say(f"Nothing is saved of {deployment.name}: its logs are saved when it fails.")
    return 0


def show_one(api: Api, name: str | None, generation: int | None, as_json: bool) -> int:
    """The latest one where `generation` is None; what its containers were like, rank by rank."""
    deployment, raw = _ask(api, name)
    saved = read(Captures, raw).captures
    if generation is None and not saved:
        raise Usage(f"nothing is saved of {deployment.name}", "logs are saved when a group fails")
    wanted = saved[-1].generation if generation is None else generation
    one = api.get(f"/api/v1/deployments/{quote(deployment.name)}/captures/{wanted}")
    if as_json:
        print(json.dumps(one, indent=2))
        return 0
    term = terminal()
    known = next(capture for capture in reversed(saved) if capture.generation == wanted)
    when = ago(known.at, read(Status, api.get("/api/v1/status")).at)
    lines = labelled("saved", f"{when}, because of {known.reason}, in {known.folder}", term)
    for rank in one["ranks"]:
        lines += labelled(f"{rank['rank']}@{rank['node']}", _ended(rank["inspect"]), term)
    lines += labelled("logs", f"`sparkd ctl logs {deployment.name} --generation {wanted}`", term)
    lines += labelled("settings", f"`sparkd ctl capture show {deployment.name} --generation {wanted} --json`", term)
    print("\n".join(lines))
    return 0


def _ask(api: Api, name: str | None) -> tuple[Deployment, dict[str, Any]]:
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    return deployment, api.get(f"/api/v1/deployments/{quote(deployment.name)}/captures")


def _row(capture: Capture, now: float) -> list[Cell]:
    logs = ", ".join(f"{one.rank}@{one.node} {max(1, one.log_bytes >> 10)} KiB" for one in capture.ranks)
    return [Cell(f"g{capture.generation}"), Cell(clock(capture.at, now)), Cell(capture.reason), Cell(logs or "none")]


def _ended(inspect: Any) -> str:
    """The state that the rank was in, as what ran it tells: Docker, systemd, or the demo's shim."""
    shown = inspect if isinstance(inspect, dict) else {}
    if isinstance(shown.get("State"), dict):
        return _of_docker(shown["State"])
    if "ActiveState" in shown:
        return _of_unit(shown)
    if isinstance(shown.get("container"), dict):
        return _worded(shown["container"].get("state"), shown["container"].get("exit_code"))
    return "its settings were not saved"


def _of_docker(state: dict[str, Any]) -> str:
    code = None if state.get("Running") else state.get("ExitCode")
    return _worded(state.get("Status"), code, bool(state.get("OOMKilled")))


def _of_unit(shown: dict[str, Any]) -> str:
    """A signal's number counts as the shell has it, 128 more, as sparkd's other words of a rank's end do."""
    state, code = str(shown.get("SubState")), None
    if state != "running":
        status = str(shown.get("ExecMainStatus"))
        killed = shown.get("ExecMainCode") in CLD_KILLED
        code = int(status) + 128 * killed if status.isdecimal() else None
    return _worded(state, code, shown.get("Result") == "oom-kill")


CLD_KILLED = ("2", "3")
"""Of waitid(2), in ExecMainCode: killed by a signal, without or with a dump."""


def _worded(state: Any, code: Any, out_of_memory: bool = False) -> str:
    words = [str(state or "state unknown")]
    if code is not None:
        words.append(f"exit code {code}")
    if out_of_memory:
        words.append("killed for want of memory")
    return ", ".join(words)
