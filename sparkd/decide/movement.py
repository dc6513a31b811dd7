"""Whether the ranks of a start do anything: CPU time, bytes read and written, new lines in the head's log."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide.case import Case, duration, names
from sparkd.model.launch import Launch, Movement
from sparkd.model.machine import Work
from sparkd.model.snapshot import Unknown

MOVED_CPU_MS = 20
"""Two clock ticks. `docker-init` and `sleep` need one in a quarter of an hour, a shell that asks every 5 s ten in a minute."""
MOVED_BYTES = 64 << 10
STILL_S = 60.0
"""A rank that did nothing for so long is said to do nothing."""


def followed(case: Case, launch: Launch) -> Launch:
    """With what this look shows. A rank whose work cannot be read is left out: unknown is not still."""
    movements = (_followed(case, launch, rank) for rank in case.ranks)
    log = case.view.log if case.view is not None else None
    changed = log is not None and log != launch.log
    return replace(
        launch,
        movements=tuple(one for one in movements if one is not None),
        log=log if log is not None else launch.log,
        log_at=case.now if changed else launch.log_at,
    )


def _followed(case: Case, launch: Launch, rank: int) -> Movement | None:
    container = case.group.ranks.get(rank)
    work = case.group.views[case.node_of(rank)].work
    if container is None or isinstance(work, Unknown):
        return None
    found = next((one for one in work if one.owner == container.id), None)
    if found is None:
        return None
    before = launch.movement(rank)
    # Less than before: a process has ended, and took its figures along.
    if before is None or _moved(before, found):
        return Movement(rank, found.cpu_ms, found.io_bytes, case.now)
    return before


def _moved(before: Movement, found: Work) -> bool:
    cpu_ms, io_bytes = found.cpu_ms - before.cpu_ms, found.io_bytes - before.io_bytes
    return cpu_ms < 0 or io_bytes < 0 or cpu_ms >= MOVED_CPU_MS or io_bytes >= MOVED_BYTES


def moved_at(launch: Launch, rank: int) -> float | None:
    """When a rank was last seen to do something, None where that is not known."""
    movement = launch.movement(rank)
    if movement is None:
        return None
    return max(movement.moved_at, launch.log_at) if rank == 0 and launch.log_at is not None else movement.moved_at


def words(case: Case) -> str:
    """What the ranks do, in a clause, or nothing where that is not known of each."""
    moved = {rank: moved_at(case.state.launch, rank) for rank in case.ranks}
    still = {rank: case.now - at for rank, at in moved.items() if at is not None and case.now - at >= STILL_S}
    if still:
        ranks = names(f"rank {rank} on {case.node_of(rank)}" for rank in still)
        return f"{ranks} {'has' if len(still) == 1 else 'have'} done nothing for {duration(min(still.values()))}"
    known = all(at is not None for at in moved.values())
    return "it goes on: every rank computes, reads or writes" if known and moved else ""
