"""A deployment's image and mounts -> which Python runs its engine there, and which engine that is.

The command names a program; its first line names the Python that runs it, of a venv or the image's own. Where the engine
lies in a mount of the node, so does that Python: such mounts belong to the engine, the model's and the caches' do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

from sparkd.base.errors import DockerError
from sparkd.commandline.engine_program import command, kept, paths
from sparkd.facts.containers import PATH
from sparkd.model.config import Deployment, Mount
from sparkd.model.engine_key import EngineKey
from sparkd.model.place import below
from sparkd.node.shebang import MOST_CHARS, PYTHON, interpreter
from sparkd.runtimes.connection import understood
from sparkd.runtimes.inside import Inside

PACKAGES = ("/site-packages", "/dist-packages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The engine of a deployment on one node, and all that a container needs to run its Python."""

    key: EngineKey
    python: str
    mounts: tuple[Mount, ...]
    env: Mapping[str, str]
    user: str | None


async def key_of(inside: Inside, deployment: Deployment, owner: str, node: str) -> EngineKey | None:
    """Which engine it is; costs one inspect where no mount carries it. None where the image is not there.

    Raises DockerError, also when no engine can be told from the command.
    """
    engine = await _engine(inside, deployment, node)
    if engine is None:
        return None
    if not engine.mounts:
        return engine.key(())
    async with inside.of_image(engine.image_id, owner, engine.mounts) as container:
        return engine.key(await _stamps(inside, container, engine))


async def locate(inside: Inside, deployment: Deployment, owner: str, node: str) -> Located | None:
    """As `key_of`, with the Python that runs it. Raises DockerError also when there is none."""
    engine = await _engine(inside, deployment, node)
    if engine is None:
        return None
    async with inside.of_image(engine.image_id, owner, engine.mounts) as container:
        stamps = await _stamps(inside, container, engine)
        python = await _python(inside, container, engine)
    if python is None:
        raise DockerError(node, f"{engine.program} in {deployment.image} names no Python")
    mounts = dict.fromkeys((*engine.mounts, *carrying(deployment, [python])))
    return Located(
        key=engine.key(stamps), python=python, mounts=tuple(mounts), env=engine.env, user=deployment.container.user
    )


@dataclass(frozen=True, slots=True)
class _Engine:
    image_id: str
    program: str
    paths: tuple[str, ...]
    """Where the program may be."""
    folders: tuple[str, ...]
    mounts: tuple[Mount, ...]
    env: Mapping[str, str]

    def key(self, stamps: Sequence[str]) -> EngineKey:
        said = [*stamps, *(f"{name}={value}" for name, value in self.env.items())]
        return EngineKey(self.image_id, self.program, "\n".join(said))


async def _engine(inside: Inside, deployment: Deployment, node: str) -> _Engine | None:
    image = None if deployment.image is None else await inside.image(deployment.image)
    if image is None:
        return None
    program = command(deployment)
    if program is None:
        raise DockerError(node, "the command is a shell's, in which nobody can tell the engine's Python")
    with understood(node, "inspecting an image"):
        set_there = dict(entry.partition("=")[::2] for entry in image["Config"].get("Env") or ())
        image_id = str(image["Id"])
    env = kept(deployment)
    folders = tuple(deployment.env.get("PATH", set_there.get("PATH", PATH)).split(":"))
    there = paths(program, folders)
    mounts = carrying(deployment, [*there, *env.get("PYTHONPATH", "").split(":")])
    return _Engine(image_id, program, there, folders, mounts, env)


async def _stamps(inside: Inside, container: str, engine: _Engine) -> list[str]:
    """A stamp of every mount, and of the program below one: each installation changes it."""
    stamps = [f"{one.source}:{one.target} {await inside.stamp(container, one.target)}" for one in engine.mounts]
    for path in engine.paths:
        if any(below(path, mount.target) for mount in engine.mounts):
            stamps.append(f"{path} {await inside.stamp(container, path)}")
    return stamps


async def _python(inside: Inside, container: str, engine: _Engine) -> str | None:
    """The path of the Python that runs the program, as it is named: a venv's is a link that must not be followed."""
    found = await _first(inside, container, engine.paths)
    if found is None or PYTHON.fullmatch(basename(found)):
        return found
    named = interpreter((await inside.text(container, found) or "")[:MOST_CHARS])
    return None if named is None else await _first(inside, container, paths(named, engine.folders))


async def _first(inside: Inside, container: str, candidates: Sequence[str]) -> str | None:
    for path in candidates:
        if await inside.kind(container, path) == "file":
            return path
    return None


def carrying(deployment: Deployment, needed: Sequence[str]) -> tuple[Mount, ...]:
    """The mounts that these paths lie in, and those over folders or single files of Python packages."""
    return tuple(
        mount
        for mount in deployment.container.mounts
        if any(path and below(path, mount.target) for path in needed) or any(one in mount.target for one in PACKAGES)
    )
