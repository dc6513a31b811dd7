"""A deployment -> what runs on each node: rank specs, the Docker create request, and forms that people read. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sparkd.engines import ENGINES
from sparkd.model.config import ContainerSpec, Deployment, Mount, Node
from sparkd.model.rank import (
    IDENTITY,
    LABEL_DEPLOYMENT,
    LABEL_GENERATION,
    LABEL_OWNER,
    LABEL_RANK,
    LABEL_SPEC,
    RankSpec,
    container_name,
    unit_name,
)
from sparkd.model.size import parse_size

UNIT = (
    *("Restart=no", "CollectMode=inactive", "KillMode=mixed", "OOMPolicy=kill"),
    *("LogRateLimitIntervalSec=30s", "LogRateLimitBurst=10000"),
)
"""Properties of every rank without a container; the node service sets them, and says why."""
STOP_SIGNAL = "SIGTERM"
"""Given always, so that an image's own STOPSIGNAL cannot make a stop something else."""


def rank_specs(deployment: Deployment, nodes: Mapping[str, Node], owner: str, generation: int) -> tuple[RankSpec, ...]:
    """All ranks in rank order. Raises KeyError for an unknown node or engine: configuration lets neither through."""
    return tuple(_rank_spec(deployment, rank, nodes, owner, generation) for rank in range(len(deployment.nodes)))


def _rank_spec(d: Deployment, rank: int, nodes: Mapping[str, Node], owner: str, generation: int) -> RankSpec:
    engine, node = ENGINES[d.engine], d.nodes[rank]
    identity = dict(zip(IDENTITY, (owner, d.name, str(generation), str(rank)), strict=True))
    spec = RankSpec(
        deployment=d.name,
        rank=rank,
        node=node,
        argv=engine.argv(d, rank, nodes),
        env={**engine.env(d, rank, nodes), **d.env, **d.node_env.get(node, {}), **identity},
        secrets=d.secrets,
        image=d.image,
        container=d.container,
        hardware=d.hardware,
        name=container_name(d.name, rank),
        stop_grace_s=d.stop.grace,
        runtime=d.runtime,
        user=d.user,
    )
    labels = {
        LABEL_OWNER: owner,
        LABEL_DEPLOYMENT: d.name,
        LABEL_GENERATION: str(generation),
        LABEL_RANK: str(rank),
        LABEL_SPEC: spec.digest,
    }
    return replace(spec, labels=labels)


# ------------------------------------------------------------------------------------------------------- Docker's API


def create_body(spec: RankSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The body of POST /containers/create. `secrets` maps variables to their values; they appear nowhere else.

    `Entrypoint` stays unset unless given: NGC images set up CUDA forward compatibility in theirs. An empty one given
    on purpose becomes `[""]`, Docker's word for none.
    """
    c = spec.container
    body: dict[str, Any] = {
        "Image": spec.image,
        "Cmd": list(spec.argv),
        "Env": [f"{name}={value}" for name, value in {**spec.env, **secrets}.items()],
        "Labels": dict(spec.labels),
        "StopSignal": STOP_SIGNAL,
        "StopTimeout": round(spec.stop_grace_s),
        "Tty": False,
        "HostConfig": _host_config(spec),
    }
    if c.entrypoint is not None:
        body["Entrypoint"] = list(c.entrypoint) or [""]
    if c.user is not None:
        body["User"] = c.user
    if c.workdir is not None:
        body["WorkingDir"] = c.workdir
    return body


def _host_config(spec: RankSpec) -> dict[str, Any]:
    c = spec.container
    config: dict[str, Any] = {
        "Init": True,  # reaps: with `sleep` as PID 1 each restart left a defunct worker behind
        "Privileged": c.privileged,
        "NetworkMode": c.network,
        "IpcMode": c.ipc,
        "RestartPolicy": {"Name": "no"},  # one group, one fate: Docker must never bring one rank back alone
        "LogConfig": {"Type": "json-file", "Config": {"max-size": c.log.max_size, "max-file": str(c.log.max_file)}},
        # Never `Binds`: there a missing source becomes an empty folder instead of an error.
        "Mounts": [bind(mount) for mount in c.mounts],
        "Devices": [_device(device) for device in c.devices],
        "CapAdd": list(c.cap_add),
        "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in c.ulimits.items()],
    }
    if c.shm_size is not None:
        config["ShmSize"] = parse_size(c.shm_size)
    if c.memory is not None:
        config["Memory"] = parse_size(c.memory)
    if _wants_gpus(spec):
        config["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    return config


def _wants_gpus(spec: RankSpec) -> bool:
    return spec.container.gpus is not None and spec.hardware != "cpu"


def bind(mount: Mount) -> dict[str, Any]:
    """One of `Mounts` in Docker's create request."""
    return {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}


def _device(device: str) -> dict[str, str]:
    """`HOST[:CONTAINER[:rwm]]`, as `docker run --device` takes it."""
    host, _, rest = device.partition(":")
    inside, _, rights = rest.partition(":")
    return {"PathOnHost": host, "PathInContainer": inside or host, "CgroupPermissions": rights or "rwm"}


# ----------------------------------------------------------------------------------------------------- forms for people


def as_json(specs: Sequence[RankSpec]) -> dict[str, Any]:
    """`render --format json` of docs/interfaces.md; secrets appear as the file they come from."""
    return {"schema": 1, "ranks": [_rank_json(spec) for spec in specs]}


def _rank_json(spec: RankSpec) -> dict[str, Any]:
    container = {"name": spec.name, "image": spec.image, "labels": dict(spec.labels), **asdict(spec.container)}
    return {
        "rank": spec.rank,
        "node": spec.node,
        "argv": list(spec.argv),
        "env": {**spec.env, **_references(spec)},
        "container": {**container, "gpus": spec.container.gpus if _wants_gpus(spec) else None},
        "files": [],
    }


def as_docker(spec: RankSpec) -> str:
    """The `docker run` command that makes the same container, one option a line; without one, `systemd-run`."""
    if spec.runtime == "process":
        return _as_unit(spec)
    options = (shlex.join(option) for option in _docker_options(spec))
    return " \\\n  ".join(("docker run -d", *options, shlex.join((spec.image or "", *_entry_words(spec), *spec.argv))))


def _as_unit(spec: RankSpec) -> str:
    """As the node service starts it; systemd replaces `$` in a command's words, and `$$` by one."""
    options = (shlex.join((option,)) for option in _unit_options(spec))
    command = shlex.join((*spec.argv[:1], *(word.replace("$", "$$") for word in spec.argv[1:])))
    return " \\\n  ".join(("systemd-run --service-type=exec --remain-after-exit", *options, f"-- {command}"))


def _unit_options(spec: RankSpec) -> Iterator[str]:
    c = spec.container
    yield f"--unit={unit_name(spec.name)}"
    yield f"--description=sparkd rank {spec.name}"
    yield f"--uid={spec.user}"
    yield f"--working-directory={c.workdir or '/'}"
    yield from (f"--property={one}" for one in UNIT)
    yield f"--property=TimeoutStopSec={spec.stop_grace_s:g}s"
    yield from (f"--property=LogExtraFields={name}={value}" for name, value in unit_labels(spec).items())
    for name, limit in c.ulimits.items():
        yield f"--property=Limit{name.upper()}={'infinity' if limit < 0 else limit}"
    if c.memory is not None:
        yield f"--property=MemoryMax={parse_size(c.memory)}"
    yield from (f"--setenv={name}={value}" for name, value in {**spec.env, **_references(spec)}.items())


def unit_labels(spec: RankSpec) -> dict[str, str]:
    """The owner of a unit, as fields of its log: sparkd adopts it by them, as it adopts a container by its labels."""
    return {**{name: spec.env[name] for name in IDENTITY}, "SPARKD_SPEC": spec.labels[LABEL_SPEC]}


def _docker_options(spec: RankSpec) -> Iterator[tuple[str, ...]]:
    c = spec.container
    yield "--name", spec.name
    yield ("--init",)
    yield "--restart", "no"
    yield "--network", c.network
    yield "--ipc", c.ipc
    if c.privileged:
        yield ("--privileged",)
    if _wants_gpus(spec):
        yield "--gpus", str(c.gpus)
    yield from _optional(c)
    for name, value in spec.labels.items():
        yield "--label", f"{name}={value}"
    for name, value in {**spec.env, **_references(spec)}.items():
        yield "-e", f"{name}={value}"
    yield "--stop-signal", STOP_SIGNAL
    yield "--stop-timeout", str(round(spec.stop_grace_s))
    yield "--log-driver", "json-file"
    yield "--log-opt", f"max-size={c.log.max_size}"
    yield "--log-opt", f"max-file={c.log.max_file}"


def _optional(c: ContainerSpec) -> Iterator[tuple[str, ...]]:
    given = {"--shm-size": c.shm_size, "--memory": c.memory, "--user": c.user, "--workdir": c.workdir}
    yield from ((option, value) for option, value in given.items() if value is not None)
    if c.entrypoint is not None:
        yield "--entrypoint", c.entrypoint[0] if c.entrypoint else ""
    yield from (("--device", device) for device in c.devices)
    yield from (("--cap-add", capability) for capability in c.cap_add)
    yield from (("--ulimit", f"{name}={limit}") for name, limit in c.ulimits.items())
    yield from (("--mount", _mount_option(mount)) for mount in c.mounts)


def _mount_option(mount: Mount) -> str:
    """`--mount` reads its value as one line of CSV."""
    fields = (
        "type=bind",
        f"source={mount.source}",
        f"target={mount.target}",
        *(("readonly",) if mount.read_only else ()),
    )
    return ",".join(
        f'"{field.replace(chr(34), chr(34) * 2)}"' if re.search('[,"]', field) else field for field in fields
    )


def _entry_words(spec: RankSpec) -> tuple[str, ...]:
    """`docker run --entrypoint` takes one word; the others go in front of the command."""
    return spec.container.entrypoint[1:] if spec.container.entrypoint else ()


def as_script(spec: RankSpec) -> str:
    """A bash file that runs the rank's command in a shell inside its container (or on its node, without one)."""
    exports = (f"export {name}={shlex.quote(value)}" for name, value in spec.env.items())
    secrets = (f'export {name}="$(cat {shlex.quote(file)})"' for name, file in spec.secrets.items())
    head = f"# {spec.deployment}, rank {spec.rank}, on {spec.node}" + (f", as {spec.user}" if spec.user else "")
    folder = (f"cd {shlex.quote(spec.container.workdir or '/')}",) if spec.runtime == "process" else ()
    return "\n".join(("#!/bin/bash", head, "set -eu", *folder, *exports, *secrets, f"exec {shlex.join(spec.argv)}", ""))


def _references(spec: RankSpec) -> dict[str, str]:
    return {name: f"<from {file}>" for name, file in spec.secrets.items()}
