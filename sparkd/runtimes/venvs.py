"""A deployment without containers -> which Python of the node runs its engine, and what that one printed of a script.

All through the node service: it finds the Python, and has systemd run it as the deployment's user.
"""

from __future__ import annotations

from contextlib import suppress

import anyio

from sparkd.base import bounded_bytes
from sparkd.base.errors import HostError, NodeRefused
from sparkd.commandline.engine_program import command, kept
from sparkd.facts import FactError, Question
from sparkd.facts.engine_python import ENGINE_PYTHON, EnginePython
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Cluster, Deployment
from sparkd.model.engine_key import EngineKey
from sparkd.model.failure_code import FailureCode
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.throwaway import ENV, MARGIN_S, RUN_S

LOOK_S = 4.0
STOP_S = 10.0


class Venvs:
    """An Interview on one node."""

    def __init__(self, node: str, client: NodeClient) -> None:
        self._node, self._client = node, client

    async def key_of(self, deployment: Deployment, owner: str) -> EngineKey | None:
        located = await self.locate(deployment, owner)
        return None if located is None else located.key

    async def locate(self, deployment: Deployment, owner: str) -> Located | None:
        program = command(deployment)
        if program is None:
            why = "the command is a shell's, in which nobody can tell the engine's Python"
            raise NodeRefused(self._node, why, FailureCode.NO_PYTHON)
        found = await self._found(deployment)
        if not found.path:
            raise NodeRefused(self._node, f"{program} is not there, or names no Python", FailureCode.NO_PYTHON)
        env = kept(deployment)
        stamp = "\n".join([f"{deployment.user}", *found.stamps, *(f"{name}={value}" for name, value in env.items())])
        key, whole = EngineKey("", program, stamp), {**ENV, **env}
        return Located(key=key, python=found.path, mounts=(), env=whole, user=deployment.user)

    async def _found(self, deployment: Deployment) -> EnginePython:
        name = ENGINE_PYTHON.name
        asked = ENGINE_PYTHON.args(Question(Cluster(cluster="", nodes={}), deployment, self._node))
        await self._client.greet()
        probed = await self._client.probe({name: asked}, LOOK_S)
        if name in probed.errors:
            raise NodeRefused(self._node, probed.errors[name].why, probed.errors[name].code)
        try:
            return await bounded_bytes.parsed(ENGINE_PYTHON.parse, probed.texts[name])
        except FactError as error:
            raise NodeRefused(self._node, f"unreadable {name}: {error}", FailureCode.UNREADABLE) from None

    async def run(self, located: Located, script: str, owner: str) -> str:
        args = {"python": located.python, "script": script, "user": located.user, "env": dict(located.env)}
        try:
            return str(await self._client.call("ask_engine", args, RUN_S + MARGIN_S))
        except NodeRefused:
            raise  # nothing of our request is left there; a script that runs there may be another client's
        except (HostError, anyio.get_cancelled_exc_class()):
            # Where even this does not arrive, systemd ends it.
            with anyio.move_on_after(STOP_S, shield=True), suppress(HostError):
                await self._client.call("stop_asking", {}, STOP_S)
            raise
