"""Probe name -> function(args, deadline_s) -> raw text.

A new probe is one file here, one line in the table, and one parser in `sparkd.facts` on the head.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from sparkd.node.probes import boot, docker, meminfo, paths, ping, processes, shm, sockets, system, unit

Probe = Callable[[Mapping[str, Any], float], str]

PROBES: Mapping[str, Probe] = {
    "boot": boot.probe,
    "meminfo": meminfo.probe,
    "system": system.probe,
    "docker": docker.probe,
    "processes": processes.probe,
    "sockets": sockets.probe,
    "shm": shm.probe,
    "ping": ping.probe,
    "unit": unit.probe,
    "paths": paths.probe,
}
