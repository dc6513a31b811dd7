"""A configuration directory -> Config, or every problem of every file in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkd.base.errors import ConfigError, Problem
from sparkd.base.one_line import escaped
from sparkd.model.config import BrokenDeployment, Cluster, Config, Deployment
from sparkd.node import regular
from sparkd.settings.cluster import cluster_of
from sparkd.settings.deployment import Loaded, deployment_of
from sparkd.settings.reader import MAX_BYTES, parse
from sparkd.settings.shape import Fault, place, suggestion
from sparkd.settings.tree import Item, printable

CLUSTER_FILE = "sparkd.yaml"
DEPLOYMENTS = "deployments"


def load(path: Path, profiles: Mapping[str, str] | None = None) -> Config:
    """`path` is a directory or its sparkd.yaml; `profiles` maps deployments to profiles chosen over the files'.

    Raises ConfigError for a bad sparkd.yaml, with the problems of all files. A bad deployment file breaks itself alone.
    """
    read = _read(path, profiles or {})
    if read.cluster is None or read.problems:
        raise ConfigError(tuple(read.all_problems()))
    good = tuple(loaded.deployment for loaded in read.loaded.values() if loaded.deployment and not loaded.problems)
    taken = {deployment.name for deployment in good}
    broken: list[BrokenDeployment] = []
    for file, loaded in read.loaded.items():
        if loaded.problems:
            name = _broken_name(file, loaded, taken)
            taken.add(name)
            broken.append(BrokenDeployment(name=name, file=file, problems=tuple(map(str, loaded.problems))))
    return Config(cluster=read.cluster, deployments=good, broken=tuple(broken), files=(read.file, *read.loaded))


def load_deployment(path: Path, cluster: Cluster, profile: str | None = None) -> Deployment:
    """One deployment file by itself. Raises ConfigError with every problem."""
    loaded = _deployment(path, cluster, lambda _: profile)
    if loaded.problems or loaded.deployment is None:
        raise ConfigError(_sorted(loaded.problems))
    return loaded.deployment


def check(path: Path) -> tuple[Problem, ...]:
    """Every problem of every file, in file order; nothing when the configuration is good."""
    return tuple(_read(path, {}).all_problems())


# ------------------------------------------------------------------------------------------------------------- reading


@dataclass(slots=True)
class _Everything:
    file: str
    cluster: Cluster | None
    problems: tuple[Problem, ...]
    """The problems of sparkd.yaml alone."""
    loaded: dict[str, Loaded]

    def all_problems(self) -> Iterator[Problem]:
        yield from self.problems
        for loaded in self.loaded.values():
            yield from loaded.problems


def _read(path: Path, profiles: Mapping[str, str]) -> _Everything:
    file = path / CLUSTER_FILE if os.path.isdir(path) else path  # never raises: reading it says what is wrong
    tree, problems = _tree(file)
    cluster = None
    if tree is not None:
        cluster, more = cluster_of(tree, _named(file))
        problems += more
    loaded = {
        _named(each): _deployment(each, cluster, profiles.get) for each in _deployment_files(file.parent / DEPLOYMENTS)
    }
    _together(loaded)
    return _Everything(_named(file), cluster, _sorted(problems), loaded)


def _deployment_files(folder: Path) -> list[Path]:
    """Editors leave their locks and backups beside the files: those begin with a dot, or end otherwise."""
    try:
        names = [folder / name for name in os.listdir(folder)]
    except OSError as error:
        return [] if isinstance(error, FileNotFoundError) else [folder]  # reading it as a file says what is wrong
    return sorted(each for each in names if each.suffix in (".yaml", ".yml") and each.name[0] != ".")


def _named(file: Path) -> str:
    """The path as it is told: the name of a file may hold any bytes, and one that was no UTF-8 cost all of /metrics."""
    return escaped(str(file))


def _tree(file: Path) -> tuple[Item | None, tuple[Problem, ...]]:
    name = _named(file)
    try:
        return parse(regular.beginning(str(file), MAX_BYTES + 1), name)
    except regular.NotRegular:
        return None, (Problem(name, 0, "", "not a regular file", "put the configuration here"),)
    except FileNotFoundError:
        fix = "config/sparkd.yaml in the source tree is one to begin with"
        return None, (Problem(name, 0, "", "there is no such file", fix),)
    except OSError as error:
        return None, (Problem(name, 0, "", f"cannot be read: {error.strerror}", "look at owner and rights"),)


def _deployment(file: Path, cluster: Cluster | None, choice: Callable[[str], str | None]) -> Loaded:
    """`choice`: name of the deployment -> the profile that a person chose, or None for the file's own."""
    tree, problems = _tree(file)
    if tree is None:
        return Loaded(None, problems, Item({}, 0))
    name = tree.at("name")
    loaded = deployment_of(tree, _named(file), cluster, choice(str(name.value)) if name is not None else None)
    return loaded._replace(problems=(*problems, *loaded.problems))


def _broken_name(file: str, loaded: Loaded, taken: set[str]) -> str:
    """The name it gives itself if that can be known and is free, else one after the file."""
    written = loaded.tree.at("name")
    stem = Path(file).stem
    name = written.value if written is not None and isinstance(written.value, str) and written.value else stem
    return next(free for free in (printable(name), stem, Path(file).name, file) if free not in taken)


# ------------------------------------------------------------------------------------------------- files beside others


def _together(loaded: dict[str, Loaded]) -> None:
    """What no file shows by itself. The later of two that exclude each other is at fault: the first may be running."""
    found = {file: list(_beside(file, loaded)) for file in loaded}
    for file, findings in found.items():
        one = loaded[file]
        more = tuple(place(finding, one.tree, file) for finding in findings)
        loaded[file] = one._replace(problems=_sorted((*one.problems, *more)))


def _sorted(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once, in file order."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))


def _beside(file: str, loaded: Mapping[str, Loaded]) -> Iterator[Fault]:
    me = loaded[file].deployment
    if me is None:
        return
    files = list(loaded)
    for earlier in files[: files.index(file)]:
        other = loaded[earlier].deployment
        if other is not None:
            yield from _clash(me, other, earlier)
    names = {one.deployment.name for one in loaded.values() if one.deployment is not None}
    waits = {one.deployment.name: _waits_for(one.deployment) for one in loaded.values() if one.deployment is not None}
    for key in ("after", "requires"):
        for index, name in enumerate(getattr(me, key)):
            if name == me.name or me.name in _reachable(name, waits):
                yield Fault((key, index), f"`{name}` waits for `{me.name}` too", "let one of them go first")
            elif name not in names:
                yield Fault((key, index), f"there is no deployment `{name}`", suggestion(name, names - {me.name}))


def _waits_for(deployment: Deployment) -> tuple[str, ...]:
    return (*deployment.after, *deployment.requires)


def _reachable(start: str, waits: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        fresh = set(waits.get(todo.pop(), ())) - seen
        seen |= fresh
        todo += fresh
    return seen


def _clash(me: Deployment, other: Deployment, file: str) -> Iterator[Fault]:
    """Two deployments may share ports as alternatives to each other, but not when both start by themselves."""
    if me.name == other.name:
        yield Fault(("name",), f"`{me.name}` is the name of {file} too", "give each deployment its own name")
    if not (me.autostart and other.autostart and me.nodes and other.nodes and me.nodes[0] == other.nodes[0]):
        return
    theirs = {use: getattr(other, use) for use in _ports(other)}
    for use in _ports(me):
        for their_use, port in theirs.items():
            if getattr(me, use) == port:
                found = f"{port} on {me.nodes[0]} is `{their_use}` of `{other.name}`, and both start by themselves"
                yield Fault((use,), found, "give one another port, or set `autostart: false`")


def _ports(deployment: Deployment) -> tuple[str, ...]:
    return ("port", "master_port") if len(deployment.nodes) > 1 else ("port",)
