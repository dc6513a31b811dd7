"""systemd -> the properties of given units as `systemctl show` prints them, a blank line between units."""

from __future__ import annotations

import re
from typing import Any, Mapping

from sparkd.node import arguments, command
from sparkd.node.refusal import Refusal

NAME = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.(service|socket|target|mount|scope|slice|timer)")
PROPERTIES = "Id,LoadState,ActiveState,SubState,NRestarts,ExecMainStatus,Result,FragmentPath"


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    names = arguments.items(args, "names", NAME)
    if not names:
        raise Refusal("usage", "names must hold at least one unit")
    try:
        finished = command.run(["systemctl", "show", "-p", PROPERTIES, "--", *names], deadline_s)
    except FileNotFoundError:
        raise Refusal("failed", "there is no systemctl on this node") from None
    if finished.status:
        raise Refusal("failed", f"systemctl show: {finished.errors.strip() or f'exit status {finished.status}'}")
    return finished.output
