"""`programs` probe -> how every engine's main process was started. No text means that no engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.facts import Args, Fact, FactError, Question, lines
from sparkd.model.printed import clean, document
from sparkd.model.secret import NO_SECRETS, SECRET_ENDINGS, SECRET_NAMES

LIBRARIES = ("libnccl.so", "libnccl-net.so")
"""Files of one version may be different builds, and have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The main process of an engine, as it was started. No secret is in it: the node has hidden them."""

    pid: int
    ppid: int
    start_ticks: int
    owner: str
    """Container id or unit of its control group, or `-`."""
    argv: tuple[str, ...]
    env: Mapping[str, str] | None
    """None where it could not be read."""
    libraries: Mapping[str, str | None]
    """Path, as the process sees it -> sha256 (hex), None where there was no time to read it all."""


def parse(text: str) -> tuple[Program, ...]:
    return tuple(map(_program, lines(text)))


def _program(line: str) -> Program:
    try:
        found: dict[str, Any] = document(line)
        return Program(
            pid=int(found["pid"]),
            ppid=int(found["ppid"]),
            start_ticks=int(found["start_ticks"]),
            owner=str(found["owner"]),
            argv=tuple(clean(str(word)) for word in found["argv"]),
            env=None
            if found["env"] is None
            else {clean(str(name)): clean(str(text)) for name, text in found["env"].items()},
            libraries={str(path): None if sha is None else str(sha) for path, sha in found["libraries"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactError(f"no program in {line[:80]!r}: {error!r}") from None


def _args(question: Question) -> Args:
    """Variables under `secrets:` hold secrets whatever they are called."""
    own = [name.upper() for name in question.deployment.secrets if name.upper() not in SECRET_NAMES]
    names = {"hide": list(SECRET_ENDINGS), "hide_like": [*SECRET_NAMES, *own], "show_like": list(NO_SECRETS)}
    return {**names, "libraries": list(LIBRARIES)}


PROGRAMS: Fact[tuple[Program, ...]] = Fact("programs", parse, _args)
