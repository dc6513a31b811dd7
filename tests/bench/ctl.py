"""`sparkd ctl status` beside `supervisorctl status`, whole processes in turn, each asking its own real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .bench import Bench
from .table import Row
from .world import POLL_S, READY_S, BenchError

ALLOWED, WANTED = 1.0, 0.6
SUPERVISORD = """\
[supervisord]
nodaemon=true
logfile={folder}/log
pidfile={folder}/pid
childlogdir={folder}
[unix_http_server]
file={folder}/sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{folder}/sock
[program:rank0]
command=sleep 86400
[program:rank1]
command=sleep 86400
"""


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float


def ctl(bench: Bench) -> Iterator[Row]:
    """Ratios within pairs: what slows the machine for a while slows both."""
    bench.settled()
    scripts = Path(sys.executable).parent
    ours = [str(scripts / "sparkd"), "ctl", "status"]
    environment = {**os.environ, "SPARKD_SOCKET": str(bench.world().layout.socket)}
    with _supervisord(scripts) as theirs:
        for argv in (ours, theirs):  # bytecode and page cache
            _run(argv, environment)
        pairs = [(_run(ours, environment), _run(theirs, environment)) for _ in range(bench.scale.pairs)]
    yield from _rows(pairs)


def _rows(pairs: Sequence[tuple[Run, Run]]) -> Iterator[Row]:
    walls = sorted(one.wall_s / other.wall_s for one, other in pairs)
    least = min(one.wall_s for one, _ in pairs), min(other.wall_s for _, other in pairs)
    note = (
        f"wall time, median of {len(pairs)} pairs; least {1000 * least[0]:.0f} ms beside {1000 * least[1]:.0f} ms, "
        f"{least[0] / least[1]:.2f}"
    )
    spread = f"{walls[0]:.2f} to {walls[-1]:.2f}"
    value = median(walls)
    for what, limit in (("ctl status / supervisorctl", ALLOWED), ("the same, next target", WANTED)):
        yield Row(
            benchmark="ctl",
            what=what,
            value=value,
            limit=limit,
            spread=spread,
            note=note if limit == ALLOWED else "",
        )
    cpu = median(one.cpu_s / other.cpu_s for one, other in pairs)
    yield Row(benchmark="ctl", what="the same, CPU time", value=cpu)


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Raises BenchError when the command fails."""
    began = time.monotonic()
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise BenchError(f"{' '.join(argv)} ended with {child.returncode}")
    return Run(wall_s, used.ru_utime + used.ru_stime)


@contextmanager
def _supervisord(scripts: Path) -> Iterator[list[str]]:
    """A running one with two programs -> the argv that asks it."""
    with tempfile.TemporaryDirectory(prefix="sparkd-bench-") as folder:
        config = Path(folder) / "supervisord.conf"
        config.write_text(SUPERVISORD.format(folder=folder), "utf-8")
        argv = [str(scripts / "supervisord"), "-c", str(config)]
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ask = [str(scripts / "supervisorctl"), "-c", str(config), "status"]
        try:
            end = time.monotonic() + READY_S
            while subprocess.run(ask, capture_output=True, check=False).stdout.count(b"RUNNING") < 2:
                if time.monotonic() > end or child.poll() is not None:
                    raise BenchError("supervisord does not run its two programs")
                time.sleep(POLL_S)
            yield ask
        finally:
            child.terminate()
            child.wait()
