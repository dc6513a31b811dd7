"""What vLLM logs when something is wrong with it.

Recorded on vLLM 0.32.0 over two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sparkd.model.printed import shown

_FINDINGS = (
    ("worker-exception", re.compile(r"WorkerProc hit an exception")),
    ("worker-died", re.compile(r"Worker proc \S+ died unexpectedly")),
    ("engine-dead", re.compile(r"EngineDeadError|EngineCore encountered a fatal error|Engine core proc \S+ died")),
    # Comes before the EngineDeadError of an ordinary `docker stop`; a crash lacks it (evidence 17a).
    ("shutdown-triggered", re.compile(r"\[shutdown\] API server: shutdown triggered")),
    # Normal while compiling; a stuck peer while serving (evidence 04, 05a: 60 s after the fault, level INFO).
    ("peer-hint", re.compile(r"No available shared memory broadcast block found")),
)


def findings(lines: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for line in shown(lines):
        found.update((name, None) for name, pattern in _FINDINGS if pattern.search(line))
    return tuple(found)
