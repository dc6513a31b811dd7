"""An engine is asked on one node, whichever has the memory just then: after a restart of sparkd it may be another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkd.background.parser_interview import Asking
from sparkd.model.config import Deployment
from sparkd.model.engine_key import EngineKey
from sparkd.observe import NodeAccess
from sparkd.runtimes.engine_python import Located

TABLE = '{"schema": 2, "engine": "vllm", "version": "9", "flags": {}, "env": {}, "variables": []}'
DEPLOYMENT = Deployment(name="tiny", engine="vllm", nodes=("a", "b"), runtime="process", command=("/v/vllm", "serve"))


@dataclass
class Venv:
    """The engine of one node: installed there by itself, so its files have stamps of their own."""

    node: str
    asked: list[str] = field(default_factory=list)

    async def key_of(self, deployment: Deployment, owner: str) -> EngineKey:
        return EngineKey("", "/v/vllm", self.node)

    async def locate(self, deployment: Deployment, owner: str) -> Located:
        return Located(key=await self.key_of(deployment, owner), python="/v/python", mounts=(), env={}, user=None)

    async def run(self, located: Located, script: str, owner: str) -> str:
        self.asked.append(self.node)
        return TABLE


async def test_what_one_node_has_answered_is_not_asked_on_another(tmp_path: Path) -> None:
    venvs: dict[str, Any] = {name: Venv(name) for name in DEPLOYMENT.nodes}
    none: Any = None
    access = {name: NodeAccess(client=none, docker=none, venvs=one) for name, one in venvs.items()}
    for place in ("b", "a", "b"):
        asking = Asking(access, "us", tmp_path, lambda name: None)
        await asking.ask(DEPLOYMENT, place)
        assert (await asking.answer(DEPLOYMENT)).table is not None
    assert (venvs["a"].asked, venvs["b"].asked) == ([], ["b"])
