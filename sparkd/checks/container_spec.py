"""The container's settings: what the engine and RDMA need of them before anything can start."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.model.check import Level
from sparkd.model.config import ContainerSpec, Deployment
from sparkd.model.size import parse_size, spoken

RANK_SHM_BYTES = 256 << 20
"""A head of two ranks leaves 184 MiB of segments behind when it is killed (evidence 17c): it had them in use."""
DOCKER_SHM_BYTES = 64 << 20
"""Docker's own default."""


def own_shm_bytes(spec: ContainerSpec) -> int:
    """What a container with a /dev/shm of its own has."""
    return parse_size(spec.shm_size) if spec.shm_size else DOCKER_SHM_BYTES


def evaluate(scene: Scene) -> Iterator[Trouble]:
    spec, file = scene.deployment.container, scene.deployment.file or "the deployment file"
    yield from _shared_memory(spec, file)
    if scene.deployment.hardware == "gb10" and not spec.privileged and len(scene.deployment.nodes) > 1:
        yield from _rdma(spec, file)


def _shared_memory(spec: ContainerSpec, file: str) -> Iterator[Trouble]:
    size = own_shm_bytes(spec)
    if spec.ipc != "host" and size < RANK_SHM_BYTES:
        text = f"/dev/shm of the container has {spoken(size)}: the engine's ranks talk through it and need more"
        yield Trouble(None, text, f"in {file}: container: {{ipc: host}}, or shm_size: 16g")


def _rdma(spec: ContainerSpec, file: str) -> Iterator[Trouble]:
    """What `privileged` would have given."""
    if not any(device.startswith("/dev/infiniband") for device in spec.devices):
        text = "the container does not get /dev/infiniband: NCCL falls back to TCP without a word, at a fraction of the rate"
        yield Trouble(None, text, f"in {file}: container: {{devices: [/dev/infiniband]}}, or privileged: true")
    if spec.ulimits.get("memlock") != -1 and "IPC_LOCK" not in spec.cap_add:
        text = "the container may not lock memory: registering buffers for RDMA fails"
        yield Trouble(None, text, f"in {file}: container: {{ulimits: {{memlock: -1}}}}, or cap_add: [IPC_LOCK]")


def _in_container(deployment: Deployment) -> bool:
    return deployment.runtime == "docker"


CHECK = Check(
    code="container-spec",
    order=70,
    level=Level.FAIL,
    description="The container has the shared memory, devices and limits that ranks on several nodes need.",
    evaluate=evaluate,
    applies=_in_container,
)
