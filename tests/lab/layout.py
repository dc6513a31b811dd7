"""What is where in the lab: names, addresses, folders. Nothing here does anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
ASSETS = Path(__file__).resolve().parent / "assets"

# What needs the network lies here, keyed by its recipe; deleting it costs one build (about six minutes).
CACHE = Path(os.environ.get("SPARKD_LAB_CACHE", "/var/cache/sparkd-lab"))
# Each worker of `pytest -n` has a lab of its own, the first one that of a person; SPARKD_LAB=2 is the second one's.
NUMBER = os.environ.get("SPARKD_LAB") or str(int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) + 1)
_WHICH = "" if NUMBER == "1" else f"-{NUMBER}"
# What runs lies here: the outer engine's data, sockets, pid file and log.
STATE = Path(os.environ.get("SPARKD_LAB_STATE", "/var/lib/sparkd-lab") + _WHICH)

# The whole lab is one network namespace and one cgroup, so that nothing of it can leak into the machine's own network,
# and everything of it can be found and ended, even when all that knew of it has been SIGKILLed. Two labs have the same
# addresses and names, and never meet.
NETNS = f"sparkd-lab{_WHICH}"
CGROUP = f"/sparkd-lab{_WHICH}"

ENGINE_IMAGE = "lab/engine:latest"
"""The image the ranks run in, present in the Docker of every node."""
# Paths on every node; a rank sees them at the same paths with the bind mount /lab:/lab:ro.
REAL_VLLM = "/lab/vllm/bin/vllm"
FAST_VLLM = "/lab/fast/vllm"
MODEL = "/lab/model"


@dataclass(frozen=True, slots=True)
class Network:
    """A bridge between the nodes; `bench` is this machine's own address on it, inside the lab's network namespace."""

    name: str
    subnet: str
    bench: str


MANAGEMENT = Network("sparknet", "10.77.0.0/24", "10.77.0.1")
FABRIC = Network("fabric", "10.78.0.0/24", "10.78.0.1")
NETWORKS = (MANAGEMENT, FABRIC)
MANAGEMENT_LINK = "mgmt0"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node before it exists. The fabric's interface name differs per node, as on real Sparks cabled crosswise."""

    name: str
    address: str
    data_address: str
    fabric_link: str


PLANS = (
    NodePlan("spark1", "10.77.0.11", "10.78.0.11", "enp1s0f0np0"),
    NodePlan("spark2", "10.77.0.12", "10.78.0.12", "enp1s0f1np1"),
)


def hosts() -> dict[str, str]:
    """Names that every node knows: the nodes by management and fabric address, and this machine as `bench`."""
    known = {"bench": MANAGEMENT.bench}
    for plan in PLANS:
        known[plan.name] = plan.address
        known[f"{plan.name}-fabric"] = plan.data_address
    return known
