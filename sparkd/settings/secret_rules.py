"""Secrets that stand in the configuration itself -> where, and what to write instead (rule 13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from sparkd.engines import ENGINES
from sparkd.engines.args import canonical
from sparkd.model.config import Cluster, Deployment
from sparkd.model.leaks import Leak, leaks
from sparkd.model.secret import is_reference, is_secret
from sparkd.settings.shape import NEVER, Fault, as_secret
from sparkd.settings.tree import Path

IN_ADDRESS = f"there is a password in this address: {NEVER}"
_ELSEWHERE = ("secrets", "profiles", "warmup", "file", "digest")
"""Sections that are checked by themselves, and a prompt, which is prose."""
_LOGIN = re.compile(r"[^/@]*:[^/@]*@(?!sha(256|512):)")
"""`user:password@registry/image`; a digest stands behind an @ too."""


def in_deployment(d: Deployment) -> Iterator[Fault]:
    """Every one of them: variables by their names, and whatever an address, a flag or a key holds at any depth."""
    variables: list[tuple[Path, Mapping[str, str]]] = [(("env",), d.env)]
    variables += ((("node_env", node), env) for node, env in d.node_env.items())
    for path, env in variables:
        for name, value in env.items():
            if is_secret(name) and not is_reference(name, value):
                yield Fault((*path, name), NEVER, as_secret(name))
    if d.image is not None and _LOGIN.match(d.image):
        fix = "leave `user:password@` out, and log in on every node: docker login"
        yield Fault(("image",), IN_ADDRESS, fix)
    whole = {key: value for key, value in asdict(d).items() if key not in _ELSEWHERE}
    for at, name in dict.fromkeys((leak.path, leak.name) for leak in leaks(whole) if not _said(d, leak)):
        yield Fault(at, _text(at, name), _fix(d, at, name))


def in_cluster(cluster: Cluster) -> Iterator[Fault]:
    """Only addresses can have one there: all else is a path."""
    for path in dict.fromkeys(leak.path for leak in leaks(asdict(cluster)) if not leak.name):
        signed = "sign the notices with `webhook: {secret_file: …}`, or deliver them with a program under `exec`"
        fix = f"leave `user:password@` out: {signed}" if path[0] == "notify" else "leave `user:password@` out"
        yield Fault(path, IN_ADDRESS, fix)


def _said(d: Deployment, leak: Leak) -> bool:
    """Variables have been looked at by their names; what is not for `args` at all has an answer of its own."""
    engine = ENGINES.get(d.engine)
    if leak.path[0] == "args" and engine is not None:
        return canonical(str(leak.path[1])).removeprefix("no-") in engine.reserved_args
    return _variable(leak.path) is not None and leak.name == leak.path[-1]


def _variable(path: Path) -> str | None:
    """The variable whose value this is."""
    depth = {"env": 2, "node_env": 3}.get(str(path[0]), 0)
    return str(path[-1]) if len(path) == depth else None


def _text(path: Path, name: str) -> str:
    if not name:
        return IN_ADDRESS
    return NEVER if canonical(name) == canonical(str(path[-1])) else f"`{name}` is a secret: {NEVER}"


def _fix(d: Deployment, path: Path, name: str) -> str:
    variable = _variable(path)
    if variable is not None:
        return as_secret(variable)
    if not name:
        return "leave `user:password@` out: what the engine must know of it comes in a variable under `secrets:`"
    flag = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    engine = ENGINES.get(d.engine)
    read = {} if engine is None else engine.variables.secret_flags
    of_engine = flag in read and (path[0] != "args" or len(path) == 2)
    given = read[flag] if of_engine else flag.replace("-", "_").upper()
    reads = ": the engine reads it from that variable" if of_engine else ", and have it read from that variable"
    return f"leave it out, and write `secrets: {{{given}: {{file: /etc/sparkd/{given.lower()}}}}}`{reads}"
