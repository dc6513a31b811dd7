"""Profiles of hypothesis for the simulation: `ci` is the same on every run, `nightly` looks further."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    # No `explain`: it traces every line, a hundred times slower on Python 3.11.
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
settings.register_profile("ci", COMMON, max_examples=200, stateful_step_count=40, derandomize=True)
settings.register_profile("nightly", COMMON, max_examples=5000, stateful_step_count=60)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes hours runs only when it is asked for: `-m nightly`."""
    if "nightly" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="runs with -m nightly"))
