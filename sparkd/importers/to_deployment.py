"""The canonical form of a group -> a deployment file that runs the same, and what could not be carried over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkd.drift import between
from sparkd.drift.container import READ_ONLY
from sparkd.drift.form import RankForm, Side
from sparkd.drift.severities import of_node
from sparkd.drift.values import NotJson
from sparkd.drift.yaml import dump
from sparkd.engines import like
from sparkd.engines.flags import JSON_KINDS, Flag
from sparkd.engines.tables import SHIPPED
from sparkd.model.secret import is_secret

_SPEC_OFF: Mapping[str, Any] = {"privileged": False, "network": "bridge", "ipc": "private", "gpus": None}
"""Keys whose default in a deployment file is not Docker's: they are written even where the container had nothing."""

_SPEC_KEYS = (*_SPEC_OFF, "shm_size", "memory", "devices", "cap_add", "ulimits", "user", "workdir", "entrypoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`values` are the keys of the file, `notes` one sentence for each thing that a person has to look at."""

    values: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def yaml(self) -> str:
        return dump(self.values)


def to_deployment(side: Side, name: str, nodes: Sequence[str] = ()) -> Imported:
    """`nodes` in rank order, as sparkd.yaml calls them; without them the names that the side knows, or node1, node2, …"""
    head = side.ranks[0]
    flags = dict(head.flags or {})
    count = max(len(side.ranks), _whole(flags.get("nnodes")) or 1)
    names = [nodes[at] if at < len(nodes) else _node(side, at) for at in range(count)]
    notes = [f"{gap.where}: {gap.why}" for gap in dict.fromkeys(side.gaps)]
    env, node_env, secrets = _env(side, names)
    values = {
        "name": name,
        "engine": head.engine,
        "runtime": "docker" if head.image else "process",
        "nodes": names,
        "image": head.image,
        "command": list(head.program) if head.program not in ((), like(head.engine).command) else None,
        "model": head.model,
        "served_name": _first(flags.get("served-model-name")),
        "port": _whole(flags.get("port")),
        "master_port": _whole(flags.get("master-port")) if count > 1 else None,
        "container": _container(head, notes),
        "env": env,
        "node_env": node_env,
        "secrets": secrets,
        "args": dict(_args(head, notes)),
    }
    notes += _notes(side, flags, secrets, count)
    return Imported(
        values={key: value for key, value in values.items() if value not in (None, {}, [])}, notes=tuple(notes)
    )


def _notes(side: Side, flags: Mapping[str, Any], secrets: Mapping[str, Any], count: int) -> Iterator[str]:
    if count > 1 and "master-addr" in flags:
        yield f"the ranks meet at {flags['master-addr']}: that is `data_address` of the first node in sparkd.yaml"
    if len(side.ranks) < count:
        yield f"{side.label} holds {len(side.ranks)} of {count} ranks; what its nodes have of their own is missing for the others"
    names = flags.get("served-model-name")
    if isinstance(names, list) and len(names) > 1:
        yield f"only the first of the served names is kept: {', '.join(map(str, names))}"
    if not side.ranks[0].image:
        yield "no image is said: the rank runs as a process; it needs `user:`, or `runtime: docker` and `image:`"
    if flags.get("distributed-executor-backend") == "ray":
        yield "Ray places the ranks: this file starts the one command that was found, not Ray"
    for name, reference in secrets.items():
        yield f"{name} is a secret: put its value into {reference['file']}"
    for found in between.ranks(side, SHIPPED):
        yield f"rank {found.rank} differs from rank {side.ranks[0].rank} in {found.name}; what the first says is kept"


def _node(side: Side, at: int) -> str:
    form = side.rank(at)
    return (form.node if form else None) or f"node{at + 1}"


def _args(form: RankForm, notes: list[str]) -> Iterator[tuple[str, Any]]:
    flags, placed = form.table(SHIPPED).flags, like(form.engine).rank_flags.given
    for name, value in (form.flags or {}).items():
        flag = flags.get(name)
        if name in placed or value is None:
            continue
        if is_secret(name):
            notes.append(f"--{name} is a secret: give it as a variable, under `secrets:`")
        elif isinstance(value, NotJson):
            notes.append(f"--{name} is left out: its value is no JSON: {value.text}")
        else:
            yield name, _written(value, flag)


def _written(value: Any, flag: Flag | None) -> Any:
    """A list in `args` is words after one flag; a list that is JSON has to be text."""
    if isinstance(value, list) and (flag is None or flag.kind in JSON_KINDS) and not (flag and flag.many):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return value


def _env(
    side: Side, names: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """What all ranks have in common, what each node has of its own, and the secrets as references."""
    every = sorted({name for form in side.ranks for name in form.env})
    secrets = {name: {"file": _reference(side, name)} for name in every if is_secret(name)}
    common, own = {}, {name: dict[str, str]() for name in names}
    for name in every:
        values = [form.env.get(name) for form in side.ranks]
        alone = len(side.ranks) < len(names) and of_node(name, side.ranks[0].engine)
        if name in secrets:
            continue
        if len(set(values)) == 1 and values[0] is not None and not alone:
            common[name] = values[0]
            continue
        for form in side.ranks:
            if name in form.env and form.rank < len(names):
                own[names[form.rank]][name] = form.env[name]
    return common, {name: env for name, env in own.items() if env}, secrets


def _reference(side: Side, name: str) -> str:
    """The file that a reference names already, or one to be made."""
    said = next((form.env[name] for form in side.ranks if name in form.env), "")
    known = said.startswith("<from ") and said.endswith(">")
    return said[6:-1] if known else f"/etc/sparkd/{name.lower()}"


def _container(form: RankForm, notes: list[str]) -> dict[str, Any]:
    if form.container is None:
        return {}
    spec = {key: form.container.get(key, _SPEC_OFF.get(key)) for key in _SPEC_KEYS}
    said = {key: value for key, value in spec.items() if key in _SPEC_OFF or value is not None}
    for key, value in form.container.items():
        if key not in (*_SPEC_KEYS, "init"):
            notes.append(f"{key}: {value} of the container has no place in a deployment file")
    for size in ("shm_size", "memory"):
        if size in said:
            said[size] = str(said[size])
    mounts = [_mount(target, source) for target, source in (form.mounts or {}).items()]
    return {**said, **({"mounts": mounts} if mounts else {})}


def _mount(target: str, source: str) -> dict[str, Any]:
    read_only = source.endswith(READ_ONLY)
    mount: dict[str, Any] = {"source": source.removesuffix(READ_ONLY), "target": target}
    return {**mount, "read_only": True} if read_only else mount


def _first(value: Any) -> str | None:
    found = value[0] if isinstance(value, list) and value else value
    return None if found is None else str(found)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
