"""A file, or a folder of the files of one side -> Side. What a file is shows in what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

from sparkd.base.errors import SparkdError
from sparkd.commandline import inspect
from sparkd.commandline.following import World
from sparkd.commandline.scope import Scope
from sparkd.commandline.script import MOST_COMMANDS, Shell
from sparkd.drift.form import Gap, RankForm, Side
from sparkd.drift.known_good import KIND as KNOWN_GOOD
from sparkd.drift.known_good import from_plain
from sparkd.drift.veil import Veil
from sparkd.importers import deployment, unit
from sparkd.node import regular
from sparkd.settings.reader import parse

KINDS = ("deployment", "script", "unit", "inspect", KNOWN_GOOD)

SCRIPTS = (".sh", ".bash", ".env")
MAX_BYTES = 1024 * 1024
"""A hundred times what a long launch script holds; `docker inspect` of eight containers is 80 KiB."""
MOST_FILES = 1000
"""In a folder of one side: a repository of recipes has some dozens. More is a folder of something else."""


class NotReadable(SparkdError):
    """One side cannot be read; the text says which file, and why."""


def read_side(
    path: Path, kind: str | None = None, config: Path | None = None, given: Mapping[str, str] | None = None
) -> Side:
    """`kind` overrides what the content looks like, `config` is the sparkd.yaml of a deployment file, `given` holds
    variables that the shell around a script has (HOME, …). Raises NotReadable, and ConfigError for a bad file.
    """
    if path.is_dir():
        return _folder(path, kind, config, given or {})
    text = _text(path)
    kind = kind or detect(path, text)
    if kind == KNOWN_GOOD:
        return _known_good(path, text)
    world = World(find=_finder(path, set()), given=given or {})
    _FOLLOW[kind](path, text, world, config)
    return _side(path, kind, world)


def detect(path: Path, text: str) -> str:
    """By content; the ending of the name does not count."""
    if text.lstrip()[:1] in "[{" and inspect.looks_like_inspect(_json(text)):
        return "inspect"
    if unit.looks_like_unit(text):
        return "unit"
    values = _yaml(path, text)
    if values is not None and values.get("kind") == KNOWN_GOOD:
        return KNOWN_GOOD
    if values is not None and "engine" in values and "nodes" in values:
        return "deployment"
    if values is not None and isinstance(values.get("services"), dict):
        raise NotReadable(f"{path} is for docker compose; compare what it makes: docker inspect CONTAINER > now.json")
    return "script"


# ----------------------------------------------------------------------------------------------------------- one file


def _script(path: Path, text: str, world: World, _config: Path | None) -> None:
    Shell(world, str(path), Scope(vars=dict(world.given), exported=set(world.given))).run(text)


def _unit(path: Path, text: str, world: World, _config: Path | None) -> None:
    drop_ins = regular.matching(f"{path}.d", "*.conf", MOST_FILES)
    unit.follow({str(path): text, **{each: _text(Path(each)) for each in drop_ins}}, world)


def _inspect(path: Path, text: str, world: World, _config: Path | None) -> None:
    documents = _json(text)
    if not inspect.looks_like_inspect(documents):
        raise NotReadable(f"{path} is not what `docker inspect` prints")
    try:
        inspect.follow(documents, str(path), world)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # JSON of another shape than Docker's
        raise NotReadable(f"{path} is not what `docker inspect` prints: {error!r}") from None


def _deployment(path: Path, _text_: str, world: World, config: Path | None) -> None:
    deployment.follow(path, str(path), config, world)


_FOLLOW: Mapping[str, Callable[[Path, str, World, Path | None], None]] = {
    "script": _script,
    "unit": _unit,
    "inspect": _inspect,
    "deployment": _deployment,
}


def _known_good(path: Path, text: str) -> Side:
    try:
        return from_plain(_yaml(path, text) or {}, str(path))
    except ValueError as error:
        raise NotReadable(f"{path}: {error}") from None


# ------------------------------------------------------------------------------------------------------------ a folder


def _folder(path: Path, kind: str | None, config: Path | None, given: Mapping[str, str]) -> Side:
    """All files of one side. What another file of it runs is no rank of its own."""
    try:
        names = regular.names(str(path), MOST_FILES)
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror}") from None
    files = [each for each in map(path.joinpath, names) if each.is_file() and not each.name.startswith(".")]
    if not files:
        raise NotReadable(f"{path} holds no files")
    texts = {file: text for file in files if (text := _lying_there(file)) is not None}
    whole, used = World(), set[Path]()
    for last in (False, True):  # twice: a container may be created by a file that comes later
        whole = World(containers=whole.containers)
        found: dict[Path, World] = {}
        for file, text in texts.items():
            of = kind or detect(file, text)
            world = World(find=_finder(file, used), containers=whole.containers, given=given)
            if of == KNOWN_GOOD:
                raise NotReadable(f"{file} is a whole side by itself; name it alone")
            _FOLLOW[of](file, text, world, config)
            if world.ranks or kind or of != "script" or _is_script(file, text):
                found[file] = world  # of notes and logs that lie there too nothing could be followed
        if last:
            for file, world in found.items():
                if file not in used:
                    whole.ranks += [form for form in world.ranks if form not in whole.ranks]
                    whole.gaps += world.gaps
                    whole.missed += world.missed
    return _side(path, "folder", whole)


def _side(path: Path, kind: str, world: World) -> Side:
    by_rank: dict[int, RankForm] = {}
    gaps = list(dict.fromkeys(world.gaps))
    if world.commands > MOST_COMMANDS:
        gaps.append(Gap(where=f"{path}:1", text="", why=f"only its first {MOST_COMMANDS} commands are followed"))
    for form in world.ranks:
        if form.rank in by_rank:
            gaps.append(
                Gap(where=f"{path}:1", text="", why=f"it starts rank {form.rank} more than once; the first counts")
            )
        by_rank.setdefault(form.rank, form)
    if not by_rank:
        gaps += world.missed
        where = f" ({gaps[0].where}: {Veil(()).text(gaps[0].why)})" if gaps else ""
        raise NotReadable(f"{path} starts no engine{where}")
    return Side(label=str(path), kind=kind, ranks=tuple(by_rank[rank] for rank in sorted(by_rank)), gaps=tuple(gaps))


def _finder(path: Path, used: set[Path]) -> Callable[[str], tuple[str, str] | None]:
    """Files that a script runs, where they lie beside it: on another machine their folders are others."""

    def find(name: str) -> tuple[str, str] | None:
        beside = path.parent / Path(name).name
        if not name or beside == path or not isfile(beside):  # Path.is_file raises for a name that is too long for one
            return None
        try:
            text = _text(beside)
        except NotReadable:
            return None  # a program, or no text: nothing to follow
        if not _is_script(beside, text):
            return None
        used.add(beside)
        return text, str(beside)

    return find


def _is_script(path: Path, text: str) -> bool:
    return text.startswith("#!") or path.suffix in SCRIPTS


def _lying_there(path: Path) -> str | None:
    """A file of a folder; None for a picture or an archive among them."""
    try:
        return _text(path)
    except NotReadable:
        if path.suffix in SCRIPTS:
            raise
        return None


def _text(path: Path) -> str:
    try:
        return regular.read(str(path), MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotReadable(f"{path} is no text") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _yaml(path: Path, text: str) -> dict[str, Any] | None:
    tree, problems = parse(text.encode(), str(path))
    values = tree.plain() if tree is not None and not problems else None
    return values if isinstance(values, dict) else None
