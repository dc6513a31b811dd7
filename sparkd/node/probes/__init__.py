"""Probe name -> function(args, deadline_s) -> raw text.

A new probe is one file here, one line in the table, and one parser in `sparkd.facts` on the head.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from sparkd.node.probes import (
    boot,
    boots,
    caches,
    disks,
    docker,
    engine_python,
    engines,
    environment,
    gpu,
    holders,
    ipc,
    links,
    meminfo,
    model,
    paths,
    ping,
    pressure,
    processes,
    programs,
    ranks,
    rdma,
    shm,
    sockets,
    system,
    unit,
    units,
    users,
    versions,
)

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
    "ranks": ranks.probe,
    "environment": environment.probe,
    "rdma": rdma.probe,
    "users": users.probe,
    "versions": versions.probe,
    "disks": disks.probe,
    "links": links.probe,
    "gpu": gpu.probe,
    "model": model.probe,
    "hashes": model.hashes,
    "caches": caches.probe,
    "engines": engines.probe,
    "engine_python": engine_python.probe,
    "programs": programs.probe,
    "holders": holders.probe,
    "ipc": ipc.probe,
    "pressure": pressure.probe,
    "units": units.probe,
    "boots": boots.probe,
}
