"""How a container is created -> the same few words, from each source: a deployment, `docker run`, or Docker itself.

Keys: privileged, network, ipc, pid, gpus, shm_size, memory (bytes), devices, cap_add, ulimits, user, workdir, entrypoint,
restart, init. What is Docker's own default is not said, so that saying it makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparkd.drift.values import path
from sparkd.model.config import ContainerSpec
from sparkd.model.printed import whole

FROM_IMAGE = ("user", "workdir", "entrypoint")
"""Where they are not set the image's own count, and a running container shows those."""

_DEFAULTS: Mapping[str, Any] = {
    "privileged": False,
    "network": "bridge",
    "ipc": "private",
    "pid": "",
    "restart": "no",
    "init": False,
}
READ_ONLY = " (read only)"
_SHM_DEFAULT = 64 * 1024 * 1024


def created(**said: Any) -> dict[str, Any]:
    """The canonical spec of what is said; nothing where it is empty or Docker's default."""
    tidy = {key: _tidy(key, value) for key, value in said.items()}
    host_ipc = tidy.get("ipc") == "host"
    if host_ipc or tidy.get("shm_size") == _SHM_DEFAULT:
        tidy.pop("shm_size", None)  # with the host's IPC it is the host's /dev/shm, whatever is asked for
    return {
        key: value
        for key, value in sorted(tidy.items())
        if value not in (None, "", 0, [], {}) and value != _DEFAULTS.get(key)
    }


def _tidy(key: str, value: Any) -> Any:
    if value is None:
        return None
    if key == "devices":
        return sorted(_device(str(one)) for one in value)
    if key == "cap_add":
        return sorted(str(one).upper().removeprefix("CAP_") for one in value)
    if key == "ulimits":
        return {str(name): _limit(limit) for name, limit in sorted(value.items())}
    if key == "network":
        return "bridge" if value in ("default", "") else value
    if key == "entrypoint":
        return [one for one in ([value] if isinstance(value, str) else value) if one] or None
    return path(value) if isinstance(value, str) else value


def _device(text: str) -> str:
    """`HOST[:CONTAINER[:rwm]]` in full."""
    host, _, rest = text.partition(":")
    inside, _, rights = rest.partition(":")
    return f"{path(host)}:{path(inside or host)}:{''.join(sorted(rights or 'rwm'))}"


def _limit(limit: Any) -> Any:
    """`-1` and `-1:-1` are one limit."""
    soft, _, hard = str(limit).partition(":")
    number = whole(soft) if soft == (hard or soft) else None
    return f"{soft}:{hard or soft}" if number is None else number


def of_spec(c: ContainerSpec, wants_gpus: bool, size: Mapping[str, int | None]) -> dict[str, Any]:
    """The container that sparkd creates: with an init, never restarted by Docker. `size`: shm_size and memory in bytes."""
    return created(
        privileged=c.privileged,
        network=c.network,
        ipc=c.ipc,
        gpus=c.gpus if wants_gpus else None,
        devices=c.devices,
        cap_add=c.cap_add,
        ulimits=c.ulimits,
        user=c.user,
        workdir=c.workdir,
        entrypoint=c.entrypoint,
        restart="no",
        init=True,
        **size,
    )


def mounted(mounts: Iterable[tuple[str, str, bool]]) -> dict[str, str]:
    """(source, target, read only) -> by target: the source, with READ_ONLY after it."""
    return {
        path(target): path(source) + (READ_ONLY if read_only else "")
        for source, target, read_only in sorted(mounts, key=lambda mount: mount[1])
    }
