"""`docker run`, `exec`, `cp` and `update` in a followed script -> containers, and what is run in them."""

from __future__ import annotations

from collections.abc import Sequence

from sparkd.commandline import docker_run
from sparkd.commandline.docker_run import Container
from sparkd.commandline.following import Following
from sparkd.engines import recognised


def docker(shell: Following, words: Sequence[str], stdin: str | None) -> None:
    """The words after `docker`; what is about neither creating nor running changes nothing."""
    verbs = [word for word in words if not word.startswith("-")]
    rest = list(words[list(words).index(verbs[0]) + 1 :]) if verbs else []
    verb = verbs[0] if verbs else ""
    if verb == "container" and rest:
        docker(shell, rest, stdin)
    elif verb in ("run", "create"):
        _run(shell, rest, stdin)
    elif verb == "exec":
        _exec(shell, rest, stdin)
    elif verb == "cp":
        _cp(shell, rest)
    elif verb == "update":
        _update(shell, rest)


def _run(shell: Following, words: Sequence[str], stdin: str | None) -> None:
    container = docker_run.run(words)
    container.node = shell.scope.node
    for file in container.env_files:
        shell.world.gap(shell.where, "", f"the variables in {file} are not read")
    container.env.update(docker_run.fill(container.env, shell.around))
    shell.world.containers[shell.scope.node, container.name] = container
    inside, command = shell.within(container, {}), container.command
    if command and command[0].startswith("-") and (engine := recognised.of_image(container.image)):
        inside.rank(engine, (), command)  # arguments alone: for the entry point of the image
    elif command:
        inside.words(command, stdin)


def _exec(shell: Following, words: Sequence[str], stdin: str | None) -> None:
    found, rest = docker_run.options(words)
    if rest:
        extra = docker_run.fill(docker_run.environment(found), shell.around)
        shell.within(_known(shell, rest[0]), extra).words(rest[1:], stdin)


def _cp(shell: Following, words: Sequence[str]) -> None:
    _, rest = docker_run.options(words)
    name, colon, target = rest[1].partition(":") if len(rest) == 2 else ("", "", "")
    if colon:
        file = rest[0].rpartition("/")[2]
        _known(shell, name).copies[f"{target}{file}" if target.endswith("/") else target] = rest[0]


def _update(shell: Following, words: Sequence[str]) -> None:
    found, names = docker_run.options(words)
    for name in names if found.get("restart") else ():
        _known(shell, name).spec["restart"] = found["restart"][-1]


def _known(shell: Following, name: str) -> Container:
    """The container of that name; one that is created elsewhere says nothing about itself."""
    key = shell.scope.node, name
    return shell.world.containers.setdefault(key, Container(name=name, node=shell.scope.node))
