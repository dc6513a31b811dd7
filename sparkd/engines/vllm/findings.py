"""What vLLM logs when something is wrong with it.

Recorded on vLLM 0.32.0 over two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.printed import shown

_FINDINGS = (
    ("worker-exception", FindingKind.FAULT, re.compile(r"WorkerProc hit an exception")),
    ("worker-died", FindingKind.PROCESS_LOST, re.compile(r"Worker proc \S+ died unexpectedly")),
    (
        "engine-dead",
        FindingKind.FAULT,
        re.compile(r"EngineDeadError|EngineCore encountered a fatal error|Engine core proc \S+ died"),
    ),
    # A request compiled or hung for longer than VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS (300 s): the engine ends itself (evidence 04).
    ("rpc-timeout", FindingKind.FAULT, re.compile(r"RPC call to \w+ timed out")),
    # Comes before the EngineDeadError of an ordinary `docker stop`; a crash lacks it (evidence 17a).
    ("shutdown-triggered", FindingKind.ENDING, re.compile(r"\[shutdown\] API server: shutdown triggered")),
    # Normal while compiling; a stuck peer while serving (evidence 04, 05a: 60 s after the fault, level INFO).
    ("peer-hint", FindingKind.HINT, re.compile(r"No available shared memory broadcast block found")),
)


def findings(lines: Iterable[str]) -> tuple[LogFinding, ...]:
    found: dict[LogFinding, None] = {}
    for line in shown(lines):
        found.update((LogFinding(name, kind), None) for name, kind, pattern in _FINDINGS if pattern.search(line))
    return tuple(found)
