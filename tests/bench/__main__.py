"""`python -m tests.bench [NAME…] [--quick | --full] [--json FILE]`: runs benchmarks, prints a table, writes JSON.

A verdict is a word in the table: no timing ends this with an error. Exits 1 when a benchmark could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sparkd

from .bench import Bench
from .checks import checks
from .ctl import ctl
from .detect import detect
from .drift import drift
from .growth import growth
from .listeners import http
from .many import many
from .mute import mute
from .scale import SCALES, Scale
from .standing import idle, memory
from .steps import steps
from .table import Row, Verdict, as_json, judged, table

BENCHMARKS: Mapping[str, Callable[[Bench], Iterator[Row]]] = {
    "memory": memory,
    "idle": idle,
    "ctl": ctl,
    "http": http,
    "checks": checks,
    "drift": drift,
    "mute": mute,
    "detect": detect,
    "steps": steps,
    "growth": growth,
    "many": many,
}
"""In this order: the first two look at a daemon that nobody has asked anything yet."""
LAB = Row(benchmark="exit", what="container exit to decision", note="needs the lab", verdict=Verdict.SKIPPED)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measures the real daemon on this machine."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(BENCHMARKS)}")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--quick", action="store_const", dest="scale", const="quick", help="a minute; nothing is judged"
    )
    length.add_argument("--full", action="store_const", dest="scale", const="full", help="for a night")
    parser.add_argument("--json", type=Path, default=Path("bench-results.json"), metavar="FILE", help="%(default)s")
    options = parser.parse_args(argv)
    strangers = set(options.names) - set(BENCHMARKS)
    if strangers:
        parser.error(f"no benchmark {', '.join(sorted(strangers))}; there are: {', '.join(BENCHMARKS)}")
    return run(options.names or list(BENCHMARKS), SCALES[options.scale or "normal"], options.json)


def run(names: Sequence[str], scale: Scale, results: Path) -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything is taken away again
    about = _about(scale)
    rows, took = list[Row](), dict[str, float]()
    bench = Bench(scale)
    try:
        for name in BENCHMARKS:
            if name in names:
                print(f"{name} …", file=sys.stderr, flush=True)
                began = time.monotonic()
                rows += _rows(name, bench)
                took[name] = round(time.monotonic() - began, 1)
    finally:
        bench.close()
    rows.append(LAB)
    about |= {"load_after": os.getloadavg()[0], "took_s": took}
    results.write_text(json.dumps(as_json(rows, about), indent=2) + "\n", "utf-8")
    print(table(rows))
    print(
        f"\n{about['cpus']} processors, load {about['load_before']:.1f} before and {about['load_after']:.1f} after; {results}"
    )
    return 1 if any(row.verdict is Verdict.FAILED for row in rows) else 0


def _rows(name: str, bench: Bench) -> list[Row]:
    """What it measured; one that breaks costs its own rows only."""
    rows: list[Row] = []
    try:
        for row in BENCHMARKS[name](bench):
            rows.append(replace(row, verdict=judged(row, bench.scale.quick)))
    except Exception as error:
        traceback.print_exc()
        rows.append(Row(benchmark=name, what=name, note=f"{type(error).__name__}: {error}", verdict=Verdict.FAILED))
    return rows


def _about(scale: Scale) -> dict[str, Any]:
    return {
        "sparkd": sparkd.__version__,
        "mode": scale.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "seconds_since_boot": round(time.clock_gettime(time.CLOCK_BOOTTIME)),
    }


if __name__ == "__main__":
    sys.exit(main())
