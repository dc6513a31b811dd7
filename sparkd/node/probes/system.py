"""systemd -> its state in one word (`running`, `degraded`, `stopping` …), `unknown` on a node without systemd."""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import command
from sparkd.node.refusal import Refusal


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """The exit status only says whether the word is `running`, so an answer of any status counts."""
    try:
        finished = command.run(["systemctl", "is-system-running"], deadline_s)
    except FileNotFoundError:
        return "unknown\n"
    state = finished.output.strip()
    if not state:
        raise Refusal("failed", f"systemctl said nothing: {finished.errors.strip()}")
    # Where another init runs, systemctl says `offline`, which on a systemd node means something else: not booted up.
    if state == "offline" and not os.path.isdir("/run/systemd/system"):
        return "unknown\n"
    return state + "\n"
