"""All checks of a deployment on two nodes, as the daemon runs them before a start -> how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sparkd.demo.layout import NAME

from .bench import Bench
from .table import Row

ALLOWED_S = 2.0


def checks(bench: Bench) -> Iterator[Row]:
    """By the daemon's own clock, from the first question to the last finding; the first run, which dials, is not counted."""
    bench.settled()
    api = bench.world().api
    path = f"/api/v1/deployments/{NAME}/checks"
    runs = [api.post(path, {}) for _ in range(1 + bench.scale.looks)][1:]
    took = [float(run["seconds"]) for run in runs]
    codes = {row["code"] for row in runs[-1]["checks"]}
    yield Row(
        benchmark="checks",
        what="all checks, two nodes",
        unit="s",
        value=median(took),
        limit=ALLOWED_S,
        spread=f"least {min(took):.2f}, most {max(took):.2f}, n {len(took)}",
        note=f"{len(codes)} checks; without Docker's own facts, which the bench has not",
    )
