"""How a rank is run on its node."""

from __future__ import annotations

from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.docker_refusals import reason
from sparkd.runtimes.logs import LogLine

__all__ = ["DockerRuntime", "LogLine", "reason"]
