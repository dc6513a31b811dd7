"""`docker` probe -> DockerUnit: is a dockerd there to be dialled?"""

from __future__ import annotations

import re

from sparkd.facts import Fact, FactError, word
from sparkd.model.machine import DockerUnit
from sparkd.model.printed import WHOLE

_RUNNING = re.compile(rf"running ({WHOLE}) ({WHOLE})")


def parse(text: str) -> DockerUnit:
    line = word(text)
    if line == "stopped":
        return DockerUnit(running=False)
    match = _RUNNING.fullmatch(line)
    if match is None:
        raise FactError(f"unexpected line {line[:80]!r}")
    return DockerUnit(running=True, pid=int(match[1]), start_ticks=int(match[2]))


DOCKER = Fact("docker", parse)
