"""The checks: what really breaks these clusters, looked for before every start. One small pure file each.

A new check is one file with a `CHECK`, one line here, and facts with their recorded output.
"""

from __future__ import annotations

from sparkd.checks import (
    boot,
    build_metadata,
    caches,
    clock,
    container_spec,
    disk,
    drift_since_known_good,
    exit_loop,
    flags,
    ghost_path,
    gpu,
    image,
    link,
    marker,
    memory,
    model,
    open_endpoint,
    parity,
    port,
    pressure,
    provides,
    second_supervisor,
    secret,
    shm,
    stray,
    swap,
)
from sparkd.checks.scene import Check

CHECKS: tuple[Check, ...] = (
    image.CHECK,
    build_metadata.CHECK,
    marker.CHECK,
    provides.CHECK,
    model.CHECK,
    flags.CHECK,
    container_spec.CHECK,
    secret.CHECK,
    ghost_path.CHECK,
    exit_loop.CHECK,
    second_supervisor.CHECK,
    disk.CHECK,
    stray.CHECK,
    port.CHECK,
    open_endpoint.CHECK,
    memory.CHECK,
    swap.CHECK,
    pressure.CHECK,
    shm.CHECK,
    caches.CHECK,
    gpu.CHECK,
    link.CHECK,
    clock.CHECK,
    parity.CHECK,
    boot.CHECK,
    drift_since_known_good.CHECK,
)
"""In the order in which they are shown."""
