"""A deployment without containers -> which Python of the node runs its engine, and what that one printed of a script.

All through the node service: it finds the Python, and has systemd run it as the deployment's user.
"""

from __future__ import annotations

from contextlib import suppress

import anyio

from sparkd.errors import HostError, NodeRefused
from sparkd.facts import FactError, engine_python
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Deployment
from sparkd.model.engine_key import EngineKey
from sparkd.runtimes.engine_python import KEPT_ENV, Located, command, paths
from sparkd.runtimes.throwaway import ENV, MARGIN_S, RUN_S

LOOK_S = 4.0
STOP_S = 10.0
BUSY = "busy"
"""The node service's code while another engine is asked there."""
SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
"""What a unit has that says nothing of it (systemd.exec(5))."""
STAMPED = {
    "vllm": (
        *("vllm*.dist-info/RECORD", "vllm/envs.py", "vllm/engine/arg_utils.py", "vllm/config/*.py"),
        *("vllm/entrypoints/*/cli_args.py", "vllm/reasoning/*.py", "vllm/tool_parsers/*.py"),
        "vllm/entrypoints/openai/tool_parsers/*.py",
    )
}
"""Engine -> what is another file after every installation, and what its parser is made of: a mod may change that alone."""


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
            raise NodeRefused(
                self._node, "the command is a shell's, in which nobody can tell the engine's Python", "shell"
            )
        env = {name: deployment.env[name] for name in KEPT_ENV if name in deployment.env}
        folders = _folders(env.get("PATH", SYSTEMD_PATH))
        request = {
            "programs": list(paths(program, folders)),
            "folders": folders,
            "path": _folders(env.get("PYTHONPATH", "")),
            "user": deployment.user or "",
            "files": list(STAMPED[deployment.engine]),
        }
        await self._client.greet()
        probed = await self._client.probe({"engine_python": request}, LOOK_S)
        if "engine_python" in probed.errors:
            raise NodeRefused(self._node, probed.errors["engine_python"].why, probed.errors["engine_python"].code)
        try:
            found = engine_python.parse(probed.texts["engine_python"])
        except FactError as error:
            raise NodeRefused(self._node, f"unreadable engine_python: {error}", "unreadable") from None
        if found is None:
            raise NodeRefused(self._node, f"{program} is not there, or names no Python", "no-python")
        stamp = "\n".join([f"{deployment.user}", *found.stamps, *(f"{name}={value}" for name, value in env.items())])
        return Located(
            key=EngineKey("", program, stamp), python=found.path, mounts=(), env={**ENV, **env}, user=deployment.user
        )

    async def run(self, located: Located, script: str, owner: str) -> str:
        args = {"python": located.python, "script": script, "user": located.user, "env": dict(located.env)}
        try:
            return str(await self._client.call("ask_engine", args, RUN_S + MARGIN_S))
        except NodeRefused:
            raise  # nothing of it is left, and what runs there may be somebody else's
        except (HostError, anyio.get_cancelled_exc_class()):
            # Where even this does not arrive, systemd ends it.
            with anyio.move_on_after(STOP_S, shield=True), suppress(HostError):
                await self._client.call("stop_asking", {}, STOP_S)
            raise


def _folders(value: str) -> list[str]:
    return [folder for folder in value.split(":") if folder.startswith("/")]
