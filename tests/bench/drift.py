"""What runs on two nodes against what worked, as `sparkd ctl drift` asks for it -> how long that takes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sparkd.demo.layout import NAME

from .bench import Bench
from .table import Row

ALLOWED_S = 1.5


def drift(bench: Bench) -> Iterator[Row]:
    """By the daemon's own clock, everything read anew: argv, environments, model files, links, units."""
    bench.settled()
    api = bench.world().api
    path = f"/api/v1/deployments/{NAME}"
    api.post(f"{path}/known-good", {"note": "of the bench"})
    runs = [api.get(f"{path}/drift") for _ in range(1 + bench.scale.looks)][1:]
    took = [float(run["seconds"]) for run in runs]
    different = {one["name"] for run in runs for one in run["findings"] if one["severity"] != "benign"}
    yield Row(
        benchmark="drift",
        what="ctl drift, two nodes",
        unit="s",
        value=median(took),
        limit=ALLOWED_S,
        spread=f"least {min(took):.2f}, most {max(took):.2f}, n {len(took)}",
        note=f"found: {', '.join(sorted(different)) or 'nothing'}; without Docker, which the bench has not",
    )
