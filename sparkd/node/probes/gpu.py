"""The NVIDIA driver and its tool -> what they say of the GPU, and the Xid errors since boot.

`module VERSION|-`, `smi ok|missing|failed WORDS`, `gpu CSV` for each GPU, `xid UNIX_TIME TEXT`. A tool that is mute costs
this probe its own deadline.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from sparkd.node import command
from sparkd.node.probes import versions

FIELDS = "index,name,driver_version,pstate,power.draw,clocks.current.sm,utilization.gpu,temperature.gpu"
CLOCKS = "clocks_event_reasons.active,clocks.max.sm"
UNKNOWN_FIELD = "is not a valid field"
"""A tool of before R535 has another word for clock events, and answers a question with one field too many by this alone."""
XIDS = 20
JOURNAL = (
    "journalctl",
    "--dmesg",
    "--boot",
    "--output=short-unix",
    "--no-pager",
    f"--lines={XIDS}",
    "--grep=NVRM: Xid",
)
_XID = re.compile(r"(\d+\.\d+) .*?(NVRM: Xid .*)")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    version = dict(line.split(" ", 1) for line in versions.probe({}, deadline_s).splitlines()).get("driver", "-")
    return "".join([f"module {version}\n", *_smi(deadline_s * 0.6), *_xids(deadline_s * 0.3)])


def _smi(deadline_s: float) -> Iterator[str]:
    try:
        finished = _ask(f"{FIELDS},{CLOCKS}", deadline_s)
        if UNKNOWN_FIELD in finished.output + finished.errors:
            finished = _ask(FIELDS, deadline_s)
    except FileNotFoundError:
        yield "smi missing\n"
        return
    said = [line.strip() for line in finished.output.splitlines() if line.strip()]
    if finished.status or not all("," in line for line in said):
        words = " ".join([*said, *finished.errors.split()])[:300]
        yield f"smi failed {words or f'status {finished.status}'}\n"
        return
    yield "smi ok\n"
    yield from (f"gpu {line}\n" for line in said)


def _ask(fields: str, deadline_s: float) -> command.Finished:
    return command.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], deadline_s)


def _xids(deadline_s: float) -> Iterator[str]:
    """journalctl ends with 1 where nothing matched, and may be missing: no journal, no Xid in it."""
    try:
        finished = command.run(JOURNAL, deadline_s)
    except FileNotFoundError:
        return
    for line in finished.output.splitlines():
        match = _XID.match(line)
        if match:
            yield f"xid {match.group(1)} {match.group(2)[:300]}\n"
