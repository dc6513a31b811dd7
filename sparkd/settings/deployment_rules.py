"""The rules of a deployment file: values of the right type -> what is still wrong with them on this cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from sparkd.engines import ENGINES, like
from sparkd.engines.args import canonical
from sparkd.model.config import Cluster, ContainerSpec, Deployment
from sparkd.model.rank import IDENTITY
from sparkd.model.secret import is_secret
from sparkd.settings import memory_rules, shared_rules
from sparkd.settings.secret_rules import in_deployment
from sparkd.settings.shape import Fault, suggestion
from sparkd.settings.tree import Path

RUNTIMES = ("docker", "process")

VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_MODEL_ID = r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?"
_USER = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
_ULIMITS = (
    *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice"),
    *("nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
"""setrlimit(2), as the node service takes them."""
_IMAGE = r"[a-z0-9][\w./:@-]*"
OPEN_KEYS: dict[Path, tuple[str, ...]] = {
    ("memory",): ("gate", "reads", "weights", "reserve", "guard"),
    ("memory", "reserve"): ("head", "worker"),
    ("memory", "guard"): ("below", "act"),
    ("provides",): ("modules", "binaries"),
    ("build_metadata",): ("path", "equals"),
    ("warmup", "expect"): ("reasoning", "contains"),
}
"""Mappings of free values, whose keys are fixed all the same."""
MARKER_KEYS = ("path", "pattern", "count", "key", "equals")


def findings(d: Deployment, cluster: Cluster | None) -> Iterator[Fault]:
    for rule in _RULES:
        yield from rule(d)
    if cluster is not None:
        yield from _on(d, cluster)


def _words(d: Deployment) -> Iterator[Fault]:
    yield from shared_rules.name(("name",), d.name, shared_rules.SMALL_NAME, "deployment name")
    yield from _supported(("engine",), d.engine, ENGINES, "engine")
    yield from _supported(("runtime",), d.runtime, RUNTIMES, "runtime")
    yield from shared_rules.word(("hardware",), d.hardware)
    yield from shared_rules.word(("warmup", "api"), d.warmup.api)
    yield from shared_rules.checks(("checks",), d.checks)
    for key in ("gate", "reads"):
        if key in d.memory:
            yield from shared_rules.word(("memory", key), d.memory[key])
    for name in d.profiles:
        yield from shared_rules.name(("profiles", name), name, shared_rules.SMALL_NAME, "profile name")
    if d.mods:
        fix = "bake them into the image and name that image"
        yield Fault(("mods",), "this version applies no mods", fix)


def _supported(path: Path, value: str, known: Any, what: str) -> Iterator[Fault]:
    if value not in known:
        yield Fault(path, f"`{value}` is no {what} of this version", "it has: " + ", ".join(known))


def _amounts(d: Deployment) -> Iterator[Fault]:
    yield from shared_rules.numbers(d)
    yield from shared_rules.policy(("policy",), d.policy)
    if d.port == d.master_port:
        fix = "give the ranks another port to meet at, such as 29501"
        yield Fault(("master_port",), f"{d.master_port} is the API's port too", fix)
    if d.start.warm_timeout > d.start.timeout > 0:
        found = f"{d.start.warm_timeout:g} s is more than `timeout` ({d.start.timeout:g} s)"
        yield Fault(
            ("start", "warm_timeout"), found, f"write at most {d.start.timeout:g}: a warm start is the shorter one"
        )


def _what_runs(d: Deployment) -> Iterator[Fault]:
    if d.runtime == "docker":
        yield from _image(d.image)
        if d.user is not None:
            yield Fault(("user",), "`user` is for the process runtime", "write `container: {user: …}`")
    elif d.runtime == "process":
        yield from _process(d)
    if not d.model:
        yield Fault(("model",), "`model` is missing", "write its path as the rank sees it, or its name on the hub")
    elif d.model.startswith("/") or not re.fullmatch(_MODEL_ID, d.model):
        yield from shared_rules.absolute(("model",), d.model)
    if not d.warmup.prompt.strip():
        yield Fault(("warmup", "prompt"), "the prompt is empty", "write a question with a short answer")


def _image(image: str | None) -> Iterator[Fault]:
    if image is None:
        yield Fault(("image",), "`image` is missing", "write the image that runtime docker runs")
    elif not re.fullmatch(_IMAGE, image):
        yield Fault(("image",), f"`{image}` is no image reference", "write REGISTRY/NAME:TAG in small letters")


def _process(d: Deployment) -> Iterator[Fault]:
    """A unit of systemd sees its node as it is: what only a container can have is refused, not ignored."""
    engine = like(d.engine)
    if d.image is not None:
        yield Fault(("image",), "runtime process runs no image", "leave it out, or write `runtime: docker`")
    if d.user is None:
        yield Fault(
            ("user",), "`user` is missing", f"write the user that the ranks run as, such as `user: {engine.name}`"
        )
    elif not re.fullmatch(_USER, d.user):
        yield Fault(("user",), f"`{d.user}` is no name of a user", "write a name, not a number")
    if not d.command:
        words = ", ".join((f"/srv/{engine.name}/bin/{engine.command[0]}", *engine.command[1:]))
        fix = f"write the program and what follows it, such as `command: [{words}]`"
        yield Fault(("command",), "`command` is missing", fix)
    else:
        yield from shared_rules.absolute(("command", 0), d.command[0])
    for key in (field.name for field in fields(ContainerSpec) if field.name not in ("ulimits", "workdir", "memory")):
        if getattr(d.container, key) != getattr(ContainerSpec(), key):
            fix = "leave it out: a process has its node's devices, networks, files and journal"
            yield Fault(("container", key), f"`{key}` is for containers, not for runtime process", fix)
    for name in d.container.ulimits:
        if name not in _ULIMITS:
            fix = suggestion(name, _ULIMITS)
            yield Fault(("container", "ulimits", name), f"`{name}` is no limit of a process", fix)


def _nodes(d: Deployment) -> Iterator[Fault]:
    if not d.nodes:
        yield Fault(("nodes",), "no nodes", "write `nodes: [NAME, …]`; the first is the head")
    for index, node in enumerate(d.nodes):
        if node in d.nodes[:index]:
            yield Fault(("nodes", index), f"`{node}` is named twice", "a node runs one rank of a deployment")
    for node in d.node_env:
        if node not in d.nodes:
            yield Fault(("node_env", node), f"`{node}` is no node of this deployment", suggestion(node, d.nodes))


LOOPBACK = "127.0.0.1"
"""The one `host` that a file may name: behind a router of the head node."""


def _arguments(d: Deployment) -> Iterator[Fault]:
    engine = ENGINES.get(d.engine)
    for name, value in d.args.items():
        path: Path = ("args", name)
        plain = canonical(name).removeprefix("no-")
        if engine is not None and plain in engine.reserved_args and (name, value) != ("host", LOOPBACK):
            yield Fault(path, f"`--{plain}` is not for `args`", engine.argument_fix(plain))
        elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            yield Fault(
                path, f"`{name}` is no argument name", "write it without dashes in front, value after the colon"
            )
        yield from shared_rules.literal(path, value)
        if isinstance(value, list):
            yield from _list(path, value)
    if engine is not None and d.nodes:
        yield from _world(d, engine.size_flag, engine.world_size(d.args))


def _list(path: Path, values: list[Any]) -> Iterator[Fault]:
    if not values:
        yield Fault(path, "an empty list gives the flag no value", "leave the argument out, or write null")
    for index, value in enumerate(values):
        yield from shared_rules.literal((*path, index), value)
        if value is None or isinstance(value, bool | list):
            yield Fault((*path, index), "no single value", "write texts, numbers or mappings in the list")


def _world(d: Deployment, flag: str, size: int | None) -> Iterator[Fault]:
    """An engine spreads its world over the nodes evenly; a GB10 has one GPU."""
    path: Path = ("args", flag) if flag in d.args else ("args",)
    nodes = len(d.nodes)
    if size is None:
        yield Fault(path, "the parallel sizes are not whole numbers above 0", f"write `{flag}: {nodes}`")
    elif d.hardware == "gb10" and size != nodes:
        found = f"the parallel sizes ask for {_count(size, 'GPU')}, one to a node; listed: {_count(nodes, 'node')}"
        yield Fault(path, found, f"write `{flag}: {nodes}`, or list {_count(size, 'node')}")
    elif size % nodes:
        found = f"the parallel sizes ask for {_count(size, 'GPU')}, which {nodes} nodes cannot share evenly"
        yield Fault(path, found, f"write a `{flag}` that {nodes} divides")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _environment(d: Deployment) -> Iterator[Fault]:
    yield from _variables(("env",), d.env)
    for node, env in d.node_env.items():
        yield from _variables(("node_env", node), env)
    for name, file in d.secrets.items():
        yield from _variable_name(("secrets", name), name)
        yield from shared_rules.absolute(("secrets", name), file)
        if name in d.env:
            yield Fault(("env", name), f"`{name}` is under `secrets` too", "keep one of the two")


def _variables(path: Path, env: Mapping[str, str]) -> Iterator[Fault]:
    for name, value in env.items():
        yield from _variable_name((*path, name), name)
        if not is_secret(name):
            yield from shared_rules.literal((*path, name), value)


def _variable_name(path: Path, name: str) -> Iterator[Fault]:
    if not re.fullmatch(VARIABLE, name):
        yield Fault(path, f"`{name}` is no name of a variable", "use letters, digits and underscores")
    elif name in IDENTITY:
        yield Fault(path, f"`{name}` tells whose a process is and is set by sparkd", "use another name")


def _container(d: Deployment) -> Iterator[Fault]:
    c, at = d.container, ("container",)
    yield from shared_rules.word((*at, "network"), c.network)
    yield from shared_rules.word((*at, "ipc"), c.ipc)
    if c.gpus is not None:
        yield from shared_rules.word((*at, "gpus"), c.gpus)
    yield from shared_rules.size((*at, "shm_size"), c.shm_size)
    yield from shared_rules.size((*at, "memory"), c.memory)
    yield from shared_rules.absolute((*at, "workdir"), c.workdir)
    for index, device in enumerate(c.devices):
        yield from shared_rules.absolute((*at, "devices", index), device.partition(":")[0])
    if not re.fullmatch(r"[0-9]+[kmg]?", c.log.max_size):
        found = f"`{c.log.max_size}` is no size of Docker's log"
        yield Fault((*at, "log", "max_size"), found, "write a whole number with k, m or g, like 50m")
    for name, limit in c.ulimits.items():
        if limit < -1:
            yield Fault((*at, "ulimits", name), f"{limit} is no limit", "write -1 for none")
    yield from _mounts(c)


def _mounts(c: ContainerSpec) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, mount in enumerate(c.mounts):
        at: Path = ("container", "mounts", index)
        yield from shared_rules.absolute((*at, "source"), mount.source)
        yield from shared_rules.absolute((*at, "target"), mount.target)
        if mount.target in seen:
            found = f"`{mount.target}` is the target of mount {seen[mount.target]} too"
            yield Fault((*at, "target"), found, "give each mount its own target")
        seen.setdefault(mount.target, index)


def _open_mappings(d: Deployment) -> Iterator[Fault]:
    for path, known in OPEN_KEYS.items():
        value: Any = d
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else getattr(value, str(step))
        if isinstance(value, Mapping):
            yield from shared_rules.keys(path, value, known, suggestion)
    if not isinstance(d.warmup.expect.get("reasoning", True), bool):
        yield Fault(("warmup", "expect", "reasoning"), "expected true or false", "write true or false")
    if not isinstance(d.warmup.expect.get("contains", ""), str):
        yield Fault(("warmup", "expect", "contains"), "expected a text", "write it in quotes")
    for index, marker in enumerate(d.markers):
        yield from shared_rules.keys(("markers", index), marker, MARKER_KEYS, suggestion)
        yield from _path_in(("markers", index), marker)
    yield from _path_in(("build_metadata",), d.build_metadata)


def _path_in(path: Path, value: Mapping[str, Any]) -> Iterator[Fault]:
    if isinstance(value.get("path"), str):
        yield from shared_rules.absolute((*path, "path"), value["path"])


_RULES: tuple[Callable[[Deployment], Iterator[Fault]], ...] = (
    *(_words, _amounts, _what_runs, _nodes, _arguments, _environment, in_deployment, _container, _open_mappings),
    memory_rules.in_deployment,
)


def _on(d: Deployment, cluster: Cluster) -> Iterator[Fault]:
    """What the deployment asks of this cluster."""
    for index, name in enumerate(d.nodes):
        node = cluster.nodes.get(name)
        if node is None:
            yield Fault(("nodes", index), f"sparkd.yaml has no node `{name}`", suggestion(name, cluster.nodes))
        elif len(d.nodes) > 1 and node.data_address is None:
            fix = f"write `data_address` for `{name}` in sparkd.yaml"
            yield Fault(("nodes", index), f"`{name}` has no address on the fabric, where ranks meet", fix)
    _, _, port = cluster.http.listen.rpartition(":")
    head = cluster.nodes.get(d.nodes[0]) if d.nodes else None
    if head is not None and head.is_local and port == str(d.port):
        yield Fault(("port",), f"{d.port} is sparkd's own (`http.listen`)", "write another, such as 8000")
    if head is not None and not head.is_local and "host" in d.args:
        found = f"sparkd could not ask an API that listens on {LOOPBACK} of `{d.nodes[0]}` alone"
        yield Fault(("args", "host"), found, "leave it out, or list the node of sparkd first")
