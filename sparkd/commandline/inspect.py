"""`docker inspect` JSON -> what each container runs and how it was made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkd.commandline import programs
from sparkd.commandline.docker_run import Container
from sparkd.commandline.following import World
from sparkd.commandline.scope import Scope
from sparkd.commandline.script import Shell
from sparkd.drift.container import created, mounted
from sparkd.drift.form import RankForm
from sparkd.drift.values import number, path
from sparkd.model.printed import whole
from sparkd.model.rank import LABEL_RANK

Json = Mapping[str, Any]
_UNNAMED = re.compile("[0-9a-f]{64}")
"""What Docker calls a volume that nobody has named."""


def looks_like_inspect(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "Config" in value[0]


def follow(documents: Sequence[Json], file: str, world: World) -> None:
    """Containers in the order given. Images among them tell which variables and words are their own."""
    images = {str(one["Id"]): one for one in documents if "HostConfig" not in one and "Id" in one}
    for one in documents:
        if "HostConfig" in one:
            _container(one, images.get(str(one.get("Image"))), file, world)


def form(one: Json, image: Json | None) -> RankForm:
    """How one container was made, and what it starts; no flags where its own words start no engine.

    Raises AttributeError, KeyError, TypeError or ValueError for JSON of another shape than Docker's.
    """
    world = World()
    _container(one, image, "docker inspect", world)
    return world.ranks[0]


def _container(one: Json, image: Json | None, file: str, world: World) -> None:
    config = one["Config"]
    own = _section(image, "Config") if image else {}
    env = {name: value for name, value in _env(config) if (name, value) not in dict(_env(own)).items()}
    env = {name: value for name, value in env.items() if name not in programs.AMBIENT}
    made = Container(
        name=str(one.get("Name", "")).lstrip("/"),
        image=str(config.get("Image", "")),
        spec=_spec(one, own),
        mounts=_mounts(one, own),
    )
    before = len(world.ranks)
    scope = Scope(vars=dict(env), exported=set(env))
    shell = Shell(world, file, scope, container=made)
    words = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    for start in range(len(words)):
        shell.words([str(word) for word in words[start:]])  # an entry point may pass the rest of its words on
        if len(world.ranks) > before:
            break
    else:
        world.ranks.append(RankForm(env=env, image=made.image, container=made.spec, mounts=made.mounts))
    label = str((config.get("Labels") or {}).get(LABEL_RANK, ""))
    labelled = whole(label)
    world.ranks[before:] = [
        replace(
            form,
            rank=form.rank if labelled is None else labelled,
            env_whole=image is None,
            image_id=str(one["Image"]) if one.get("Image") else None,
        )
        for form in world.ranks[before:]
    ]


def _section(one: Json | None, name: str) -> Json:
    found = (one or {}).get(name)
    return found if isinstance(found, dict) else {}


def environment(one: Json) -> Iterator[tuple[str, str]]:
    """What the inspect of a container or an image says of its variables."""
    yield from _env(_section(one, "Config"))


def _env(config: Json) -> Iterator[tuple[str, str]]:
    for pair in config.get("Env") or ():
        name, _, value = str(pair).partition("=")
        yield name, value


def _spec(one: Json, own: Json) -> dict[str, Any]:
    config, host = one["Config"], one["HostConfig"]
    restart = _section(host, "RestartPolicy")
    tries = restart.get("MaximumRetryCount")
    said = {key: config.get(key) for key in ("User", "WorkingDir", "Entrypoint") if config.get(key) != own.get(key)}
    return created(
        privileged=bool(host.get("Privileged")),
        network=host.get("NetworkMode"),
        ipc=host.get("IpcMode"),
        pid=host.get("PidMode"),
        gpus=_gpus(host),
        shm_size=host.get("ShmSize"),
        memory=host.get("Memory"),
        devices=[
            f"{each.get('PathOnHost')}:{each.get('PathInContainer')}:{each.get('CgroupPermissions')}"
            for each in host.get("Devices") or ()
        ],
        cap_add=host.get("CapAdd") or (),
        ulimits={each["Name"]: f"{each.get('Soft')}:{each.get('Hard')}" for each in host.get("Ulimits") or ()},
        user=said.get("User"),
        workdir=said.get("WorkingDir"),
        entrypoint=said.get("Entrypoint"),
        restart=f"{restart.get('Name')}:{tries}" if tries else restart.get("Name"),
        init=bool(host.get("Init")),
        **{f"option {option}": _said(host.get(key)) for key, option in _OPTIONS.items()},
        **({"option cpus": number(f"{host['NanoCpus'] / 1e9:g}")} if host.get("NanoCpus") else {}),
    )


_OPTIONS = {
    "CapDrop": "cap-drop",
    "CpuShares": "cpu-shares",
    "CpusetCpus": "cpuset-cpus",
    "CpusetMems": "cpuset-mems",
    "DeviceCgroupRules": "device-cgroup-rule",
    "Dns": "dns",
    "ExtraHosts": "add-host",
    "GroupAdd": "group-add",
    "OomScoreAdj": "oom-score-adj",
    "PidsLimit": "pids-limit",
    "ReadonlyRootfs": "read-only",
    "SecurityOpt": "security-opt",
    "Sysctls": "sysctl",
    "Tmpfs": "tmpfs",
}
"""What Docker keeps of options without a word of their own here -> the option, as `docker_run` has it."""
_BY_ITSELF = ("label=disable", "label:disable")
"""Docker adds it where the host's IPC or all privileges are wanted."""


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        joined = {"/": ":"}
        value = [f"{name}{joined.get(name[:1], '=') if text else ''}{text}" for name, text in value.items()]
    if isinstance(value, list):
        words = sorted(str(one) for one in value if one not in _BY_ITSELF)
        return words[0] if len(words) == 1 else words
    return "true" if value is True else value


def _gpus(host: Json) -> str | None:
    for request in host.get("DeviceRequests") or ():
        if any("gpu" in set_ for set_ in request.get("Capabilities") or ()):
            ids = ",".join(request.get("DeviceIDs") or ())
            return f"device={ids}" if ids else "all" if request.get("Count") == -1 else str(request.get("Count"))
    return "all" if host.get("Runtime") == "nvidia" else None


def _mounts(one: Json, own: Json) -> dict[str, Any]:
    """Without the volumes that Docker makes by itself because the image says so: no two containers have the same."""
    declared = {path(str(target)) for target in own.get("Volumes") or ()}
    found = []
    for each in one.get("Mounts") or ():
        target, source = str(each.get("Destination")), str(each.get("Source", ""))
        if each.get("Type") == "volume":
            source = "" if _UNNAMED.fullmatch(str(each.get("Name"))) else str(each.get("Name"))
        if source or path(target) not in declared:
            found.append((source, target, each.get("RW") is False))
    return mounted(found)
