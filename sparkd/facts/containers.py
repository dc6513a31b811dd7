"""Docker's inspect of every container of a node -> what of each matters to those beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkd.facts import Fact, FactError
from sparkd.model.printed import document
from sparkd.model.rank import LABEL_OWNER, is_named_so


@dataclass(frozen=True, slots=True)
class Bound:
    """One mount. `source`: the path on the node of a bind mount; empty for a volume, which outlives its container."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contained:
    """One container, of sparkd or of any other program. `owner` is the sparkd that made it."""

    id: str
    name: str
    image: str
    """As it was asked for."""
    image_id: str
    state: str
    exit_code: int
    restarts: int
    restart: str
    """Restart policy: no | always | unless-stopped | on-failure."""
    started_at: float | None
    """Unix time, None before the first start."""
    argv: tuple[str, ...]
    path: tuple[str, ...]
    """Folders of its PATH."""
    workdir: str | None
    mounts: tuple[Bound, ...]
    owner: str | None = None
    error: str = ""
    log_grows: bool = False
    """Docker keeps what it says in a file that has no limit."""

    @property
    def text(self) -> str:
        return " ".join([self.name, self.image, *self.argv])

    @property
    def starts_itself(self) -> bool:
        return self.restart not in ("", "no")


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What Docker sets where an image has none."""


def parse(text: str) -> tuple[Contained, ...]:
    try:
        return tuple(map(_container, document(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactError(f"no list of containers: {error!r}") from None


def _container(found: Mapping[str, Any]) -> Contained:
    state, config, host = found["State"], found["Config"], found["HostConfig"]
    env = dict(str(pair).partition("=")[::2] for pair in config.get("Env") or ())
    name, labels = str(found["Name"]).lstrip("/"), config.get("Labels") or {}
    return Contained(
        id=str(found["Id"]),
        name=name,
        image=str(config["Image"]),
        image_id=str(found["Image"]),
        state=str(state["Status"]),
        exit_code=int(state["ExitCode"]),
        restarts=int(found.get("RestartCount") or 0),
        restart=str((host.get("RestartPolicy") or {}).get("Name") or "no"),
        started_at=_unix(str(state.get("StartedAt") or "")),
        argv=(str(found["Path"]), *map(str, found.get("Args") or ())),
        path=tuple(filter(None, str(env.get("PATH") or PATH).split(":"))),
        workdir=config.get("WorkingDir") or None,
        mounts=tuple(map(_mount, found.get("Mounts") or ())),
        owner=labels.get(LABEL_OWNER) if is_named_so(name, labels) else None,
        error=str(state.get("Error") or ""),
        log_grows=_log_grows(host.get("LogConfig") or {}),
    )


def _log_grows(found: Mapping[str, Any]) -> bool:
    """The driver `local` has a limit of its own, `json-file` only the one that it is given."""
    return found.get("Type") == "json-file" and "max-size" not in (found.get("Config") or {})


def _mount(found: Mapping[str, Any]) -> Bound:
    return Bound(str(found.get("Source") or "") if found["Type"] == "bind" else "", str(found["Destination"]))


def _unix(text: str) -> float | None:
    """Docker writes nanoseconds, and the year 1 for never."""
    if not text or text.startswith("0001-"):
        return None
    seconds, _, rest = text.partition(".")
    zone = "Z" if text.endswith("Z") else rest[-6:]
    return datetime.fromisoformat(seconds.removesuffix("Z") + zone.replace("Z", "+00:00")).timestamp()


CONTAINERS: Fact[tuple[Contained, ...]] = Fact("containers", parse, via="docker")
