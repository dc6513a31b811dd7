"""What a benchmark tells the daemon that it measures, handed over in the world's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparkd.demo.layout import Layout


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds. `gap_s` None leaves the loop its own least pause between two looks."""

    period_s: float
    node_deadline_s: float
    canary_after_s: float = 120.0
    gap_s: float | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `policy:` besides."""

    def save(self, layout: Layout) -> None:
        _file(layout).write_text(json.dumps(asdict(self)), "utf-8")

    @staticmethod
    def load(layout: Layout) -> Clocks:
        return Clocks(**json.loads(_file(layout).read_text("utf-8")))


def _file(layout: Layout) -> Path:
    return layout.folder / "clocks.json"


def docker_socket(layout: Layout, node: str) -> Path:
    return layout.node(node) / "docker.sock"
