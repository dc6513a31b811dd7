"""How the power of a node is taken and given back: what sparkd.yaml says of it, and each time that it was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkd.model.policy import Seconds

POWER_EVERY_S = 6 * 3600.0
"""By itself, and without a person's `--force`, the power of one node is not taken again for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """How the power of this node is taken and given back: a program or one HTTP request (a smart plug). Used by a person with
    `sparkd ctl nodes power-cycle`, at most once in 6 h."""

    command: tuple[str, ...] = ()
    """Program, by its path, and its arguments; it runs as sparkd's user, and `SPARKD_NODE` is the node. Status 0 is success."""
    url: str | None = None
    """In place of `command`: web address of the request."""
    method: str = "POST"
    """Method of the request: GET, POST or PUT."""
    body: str | None = None
    """Body of the request."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Name of a header -> `{file: PATH}`, the file that holds its value, read when it is sent."""
    timeout: Seconds = 30.0
    """The program or the request may take this long."""
    auto: bool = False
    """Also by itself: once a node that sparkd has seen well is silent to SSH and to pings on both networks for
    `policy.gone_after`, nothing contradicts, and a deployment that is wanted up needs it."""


@dataclass(frozen=True, slots=True)
class PowerUse:
    """One use. `at` is on the daemon's clock; `ok` is None until it has ended, and for one during which sparkd ended."""

    at: float
    wall: float
    by: str = ""
    """Empty: sparkd by itself."""
    message: str = ""
    ok: bool | None = None
    text: str = ""
    """How it ended: `exit code 0`, `HTTP 200`, or why it could not be done."""
