"""One rank as it will run: everything a runtime needs to create it, as one frozen value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sparkd.model.config import ContainerSpec

LABEL_OWNER = "io.sparkd.owner"
LABEL_DEPLOYMENT = "io.sparkd.deployment"
LABEL_GENERATION = "io.sparkd.generation"
LABEL_RANK = "io.sparkd.rank"
LABEL_SPEC = "io.sparkd.spec"

IDENTITY = ("SPARKD_OWNER", "SPARKD_DEPLOYMENT", "SPARKD_GENERATION", "SPARKD_RANK")
"""Variables in the environment of every rank, by which a leftover process tells whose it was."""


def container_name(deployment: str, rank: int | str) -> str:
    """Fixed per deployment and rank, so that Docker's own name rule fences a double start."""
    return f"sparkd-{deployment}-{rank}"


def is_named_so(name: str, labels: Mapping[str, str]) -> bool:
    """Is this the name that the labels' rank was given? `docker commit` writes a container's labels into the new image, and
    every container of that has them too; the name it cannot have."""
    return name == container_name(labels.get(LABEL_DEPLOYMENT, ""), labels.get(LABEL_RANK, "?"))


def unit_name(name: str) -> str:
    """The systemd unit of a rank without a container, by the name of the rank."""
    return f"{name}.service"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """No field holds a secret's value: `secrets` maps a variable to a file on the head, read at creation."""

    deployment: str
    rank: int
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    container: ContainerSpec = field(default_factory=ContainerSpec)
    hardware: str = "gb10"
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    stop_grace_s: float = 30.0
    runtime: str = "docker"
    user: str | None = None

    @property
    def digest(self) -> str:
        """sha256 (hex) of what runs, without owner and generation: equal digests are equal ranks, whenever started."""
        whole = asdict(self)
        del whole["labels"]
        whole["env"] = {name: value for name, value in self.env.items() if name not in IDENTITY}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
