"""Every generated file of the repository, and what writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sparkd.settings.schema import cluster_schema, deployment_schema

from .checks import checks
from .keys import configuration
from .manual import manual, markdown

ROOT = Path(__file__).parents[2]

PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "cli.md": markdown,
    ROOT / "docs" / "sparkd.1": manual,
    ROOT / "docs" / "configuration.md": configuration,
    ROOT / "docs" / "checks.md": checks,
    ROOT / "config" / "schema" / "sparkd.json": lambda: _json(cluster_schema()),
    ROOT / "config" / "schema" / "deployment.json": lambda: _json(deployment_schema()),
}


def _json(schema: dict[str, object]) -> str:
    """As `sparkd config schema` prints it."""
    return json.dumps(schema, indent=2) + "\n"
