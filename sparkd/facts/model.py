"""`model` probe -> which weight files there are, which are missing, and which are shorter than their own header says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkd.facts import Args, Fact, FactError, Question, lines
from sparkd.model.config import Deployment
from sparkd.model.place import on_node
from sparkd.model.printed import WHOLE

_SHARD = re.compile(rf"(-?{WHOLE}) (-?{WHOLE}) (.+)")


@dataclass(frozen=True, slots=True)
class Shard:
    """`size` is None for a file that the index names and that is not there; `expected` None where nothing tells."""

    name: str
    size: int | None
    expected: int | None


@dataclass(frozen=True, slots=True)
class Model:
    folder: str
    """dir | file | missing"""
    config: bool
    indexed: bool
    revision: str | None
    """Of a Hugging Face cache: what refs/main names. Empty for a plain folder, None where the cache has none."""
    shards: tuple[Shard, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Name -> sha256 (hex), of small files, and of weights that were hashed on request."""

    @property
    def total(self) -> int:
        return sum(shard.size or 0 for shard in self.shards)


def parse(text: str) -> Model:
    fields: dict[str, str] = {}
    shards, hashes = [], {}
    for line in lines(text):
        name, _, rest = line.partition(" ")
        if name == "shard":
            shards.append(_shard(rest))
        elif name == "sha":
            sha, _, file = rest.partition(" ")
            hashes[file] = sha
        else:
            fields[name] = rest
    if fields.get("folder") not in ("dir", "file", "missing"):
        raise FactError("no folder in it")
    revision = fields.get("revision", "")
    return Model(
        folder=fields["folder"],
        config=fields.get("config", "missing") != "missing",
        indexed=fields.get("index", "none") != "none",
        revision=None if revision == "missing" else revision,
        shards=tuple(shards),
        hashes=hashes,
    )


def _shard(rest: str) -> Shard:
    match = _SHARD.fullmatch(rest)
    if match is None:
        raise FactError(f"no shard: {rest[:80]!r}")
    size, expected = int(match[1]), int(match[2])
    return Shard(match[3], None if size < 0 else size, None if expected < 0 else expected)


def hub_folder(deployment: Deployment, node: str) -> str | None:
    """Folder of a model named like `org/name` in the rank's Hugging Face cache, as the rank sees it."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", deployment.model):
        return None
    env = {**deployment.env, **deployment.node_env.get(node, {})}
    user = f"~{deployment.user or ''}" if deployment.runtime == "process" else "/root"
    home = env.get("HF_HUB_CACHE") or f"{env.get('HF_HOME', f'{user}/.cache/huggingface').rstrip('/')}/hub"
    return f"{home}/models--{deployment.model.replace('/', '--')}"


def folder(deployment: Deployment, node: str) -> tuple[str, bool] | None:
    """(folder on the node, is it a cache's); None where the model is inside the image, or nowhere yet."""
    if deployment.model.startswith("/"):
        found = on_node(deployment, deployment.model)
        return None if found is None else (found, False)
    hub = hub_folder(deployment, node)
    found = on_node(deployment, hub) if hub is not None else None
    return None if found is None else (found, True)


def ask(question: Question) -> Args | None:
    """`/` where there is nothing to look at: a folder without weights, which says nothing."""
    path, hub = folder(question.deployment, question.node) or ("/", False)
    return {"folder": path, "hub": hub}


MODEL: Fact[Model] = Fact("model", parse, ask)
