"""The command of a deployment -> the program that is the engine, and where on a node or in an image it may be."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import join

from sparkd.commandline import programs
from sparkd.engines import ENGINES
from sparkd.model.config import Deployment

KEPT_ENV = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Of the deployment's environment: what decides which engine its Python finds."""


def command(deployment: Deployment) -> str | None:
    """The program that is the engine, out of `env`, `nohup` and the like; None where a shell hides it."""
    words = deployment.command or ENGINES[deployment.engine].command
    rest, _, _ = programs.unwrapped(words)
    name = programs.program(rest)
    return None if not rest or name in programs.SHELLS else rest[0]


def paths(program: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Where a program may be: its path, or its name in every folder of PATH."""
    if program.startswith("/"):
        return (program,)
    return tuple(join(folder, program) for folder in folders if folder.startswith("/"))


def kept(deployment: Deployment) -> dict[str, str]:
    return {name: deployment.env[name] for name in KEPT_ENV if name in deployment.env}
