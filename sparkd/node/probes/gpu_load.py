"""nvidia-smi -> how hard every GPU works at this moment, and who computes on it.

`smi ok|missing|failed WORDS`, `gpu CSV` for each GPU, `pid PID` for each process that has it open for computing, `pids -` where
the tool does not say who does. The `gpu` probe reads the kernel's log as well, which this one is asked too often for.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from sparkd.node import command

FIELDS = "index,name,utilization.gpu,utilization.memory,power.draw,clocks.current.sm,clocks_event_reasons.active"
OLDER = FIELDS.replace("clocks_event_reasons", "clocks_throttle_reasons")
"""The name of the same field before driver 535; a tool that does not know one field answers none."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    try:
        finished = _asked(f"--query-gpu={FIELDS}", deadline_s * 0.4)
        if finished.status and "not a valid field" in finished.output + finished.errors:
            finished = _asked(f"--query-gpu={OLDER}", deadline_s * 0.3)
    except FileNotFoundError:
        return "smi missing\n"
    said = _lines(finished)
    if finished.status or not said or not all("," in line for line in said):
        words = " ".join([*said, *finished.errors.split()])[:300]
        return f"smi failed {words or f'status {finished.status}'}\n"
    return "".join(["smi ok\n", *(f"gpu {line}\n" for line in said), *_pids(deadline_s * 0.25)])


def _pids(deadline_s: float) -> Iterator[str]:
    finished = _asked("--query-compute-apps=pid", deadline_s)
    said = _lines(finished)
    if finished.status or not all(line.isdigit() for line in said):
        yield "pids -\n"
        return
    yield from (f"pid {line}\n" for line in said)


def _asked(query: str, deadline_s: float) -> command.Finished:
    return command.run(["nvidia-smi", query, "--format=csv,noheader"], deadline_s)


def _lines(finished: command.Finished) -> List[str]:
    return [line.strip() for line in finished.output.splitlines() if line.strip()]
