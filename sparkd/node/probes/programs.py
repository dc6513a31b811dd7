"""/proc -> how the main process of every engine was started, one JSON object a line: argv, environment, libraries.

`{"pid", "ppid", "start_ticks", "owner", "argv", "env", "libraries"}`. OWNER is the container id or unit of its control
group, or `-`. Children that name themselves (`VLLM::Worker_TP0`) are none: their title overwrites their arguments and
the beginning of their environment, and vLLM itself sets variables in them. `env` is null where it cannot be read.
`libraries`: path -> sha256 of each file of a name in `libraries` that the process or a child of it has mapped; null for
one that could not be hashed in time. Values of names that end like one of `hide`, or have the shape of one of `hide_like` and of
none of `show_like` (`AWS_*`, `AWS_REGION`), never leave the node.
"""

from __future__ import annotations

import json
import os
import re
import time
from fnmatch import fnmatchcase
from typing import Any, Iterator, Mapping, NamedTuple, Optional

from sparkd.node import arguments, cgroups, hashing, procfs
from sparkd.node.probes.engines import MAX_PARENTS
from sparkd.node.recognised import TITLE, is_engine
from sparkd.node.refusal import Refusal

HIDDEN = "<redacted>"
ENDING = re.compile(r"[A-Z_]+")
SHAPE = re.compile(r"[A-Z0-9_*]+")
LIBRARY = re.compile(r"[\w.+-]+")
MAX_WORDS_BYTES = 256 << 10
SHORTEST = 6
"""A secret shorter than this would be found inside ordinary words."""


class Names(NamedTuple):
    """Which names hold secrets: flags count like variables, `--api-key` does and `--max-num-batched-tokens` does not."""

    endings: tuple[str, ...]
    shapes: tuple[str, ...]
    harmless: tuple[str, ...]

    def hide(self, name: str) -> bool:
        plain = name.strip("-").replace("-", "_").replace(".", "_").upper()
        if any(fnmatchcase(plain, shape) for shape in self.harmless):
            return False
        return plain.endswith(self.endings) or any(fnmatchcase(plain, shape) for shape in self.shapes)


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    endings = arguments.items(args, "hide", ENDING)
    if not endings:
        raise Refusal("usage", "hide must name the endings of secret names")
    hide = Names(endings, arguments.items(args, "hide_like", SHAPE), arguments.items(args, "show_like", SHAPE))
    names = arguments.items(args, "libraries", LIBRARY)
    until = time.monotonic() + deadline_s * 0.7
    found = dict(_engines())
    mapped = _mapped(found, names) if names else {}
    lines = []
    for pid in found:
        if _is_main(pid, found):
            try:
                libraries = {path: _hash(file, until) for path, file in sorted(mapped.get(pid, {}).items())}
                lines.append(json.dumps(_program(pid, found[pid], hide, libraries), sort_keys=True) + "\n")
            except procfs.GONE:  # ended while we looked
                continue
    return "".join(lines)


def mains() -> list[str]:
    """The pids of all engines' main processes."""
    found = dict(_engines())
    return [pid for pid in found if _is_main(pid, found)]


def _engines() -> Iterator[tuple[str, list[str]]]:
    for pid in procfs.pids():
        try:
            words = procfs.read(f"/proc/{pid}/cmdline", MAX_WORDS_BYTES).decode("utf-8", "replace").split("\0")
        except procfs.GONE:
            continue
        if is_engine(words):
            yield pid, words[:-1] if words[-1] == "" else words


def _is_main(pid: str, found: Mapping[str, list[str]]) -> bool:
    """A child looks like its parent until it has given itself a title."""
    return not TITLE.match(found[pid][0]) and _root(pid, found) == pid


def _root(pid: str, found: Mapping[str, list[str]]) -> str:
    """The topmost engine process above this one; between them there may be shells and helpers."""
    root, above = pid, pid
    for _ in range(MAX_PARENTS):
        try:
            above = str(procfs.stat(above).ppid)
        except procfs.GONE:
            break
        if above in found:
            root = above
        if int(above) <= 1:
            break
    return root


def _program(pid: str, words: list[str], hide: Names, libraries: Mapping[str, Any]) -> dict[str, Any]:
    stat = procfs.stat(pid)
    env = _environment(pid)
    argv, given = _hidden(words, hide)
    secrets = {*given, *(text for name, text in (env or {}).items() if hide.hide(name))}
    known = sorted((text for text in secrets if len(text) >= SHORTEST), key=len, reverse=True)
    return {
        "pid": int(pid),
        "ppid": stat.ppid,
        "start_ticks": stat.start_ticks,
        "owner": cgroups.owner(pid),
        "argv": [_without(word, known) for word in argv],
        "env": None
        if env is None
        else {name: HIDDEN if hide.hide(name) else _without(text, known) for name, text in env.items()},
        "libraries": libraries,
    }


def _environment(pid: str) -> Optional[dict[str, str]]:
    try:
        pairs = procfs.read(f"/proc/{pid}/environ", MAX_WORDS_BYTES).decode("utf-8", "replace").split("\0")
    except PermissionError:  # another user's process, for a service without root (the demo)
        return None
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair[1:])  # a process may be given `=x`: no name


def _hidden(words: list[str], hide: Names) -> tuple[list[str], list[str]]:
    """The words with HIDDEN for those of flags of secret names, up to the next flag; and what was hidden."""
    shown, hidden, inside = [], [], False
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            inside = hide.hide(name)
            if inside and equals:
                hidden.append(value)
                word = f"{name}={HIDDEN}"
        elif inside:
            hidden.append(word)
            word = HIDDEN
        shown.append(word)
    return shown, hidden


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


# ----------------------------------------------------------------------------------------------------------- libraries


def _mapped(found: Mapping[str, list[str]], names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Main process -> path as it sees it -> path by which it can be read from here, of the libraries that it or a child
    of it has mapped: it is the workers that load NCCL."""
    mapped: dict[str, dict[str, str]] = {}
    for pid in found:
        try:
            lines = procfs.read(f"/proc/{pid}/maps").decode("utf-8", "replace").splitlines()
        except (*procfs.GONE, PermissionError):
            continue
        for path in {line.split(None, 5)[5] for line in lines if line.count(" ") > 4 and "/" in line}:
            if os.path.basename(path).startswith(names) and not path.endswith(" (deleted)"):
                mapped.setdefault(_root(pid, found), {})[path] = f"/proc/{pid}/root{path}"
    return mapped


def _hash(file: str, until: float) -> Optional[str]:
    """A libnccl has 300 MB, and is the same at every look."""
    try:
        return hashing.sha256(file, lambda: time.monotonic() < until)
    except OSError:  # replaced or gone since it was mapped
        return None
