"""How a rank is run on its node."""

from __future__ import annotations

from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.logs import LogLine
from sparkd.runtimes.refusals import reason

__all__ = ["DockerRuntime", "LogLine", "reason"]
