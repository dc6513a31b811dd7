"""`engine_python` probe -> the Python that runs an engine of a node, and stamps of what it finds there. No text: none does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.commandline.engine_program import command, kept, paths
from sparkd.engines import ENGINES
from sparkd.facts import Args, Fact, FactError, Question, lines
from sparkd.model.printed import WHOLE

SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
"""What a unit has that says nothing of it (systemd.exec(5))."""
_PYTHON = re.compile(r"python (/.*)")
_STAMP = re.compile(rf"({WHOLE} {WHOLE}|- -) /.*")
_INSTALLED = re.compile(r".*/[^/]+-([^/-]+)\.dist-info/[^/]+")


@dataclass(frozen=True, slots=True)
class EnginePython:
    """`stamps`: time and size of the program, its Python and the packages that count, a line each. Empty where none is."""

    path: str = ""
    stamps: tuple[str, ...] = ()

    @property
    def version(self) -> str | None:
        """Of the installed engine; None where no installed one was found."""
        found = (_INSTALLED.fullmatch(line) for line in self.stamps)
        return next((match[1] for match in found if match), None)


def parse(text: str) -> EnginePython:
    if not text:
        return EnginePython()
    first, *stamps = lines(text)
    named = _PYTHON.fullmatch(first)
    odd = next((line for line in stamps if not _STAMP.fullmatch(line)), None if named else first)
    if named is None or odd is not None:
        raise FactError(f"unexpected line {str(odd)[:80]!r}")
    return EnginePython(named[1], tuple(stamps))


def _args(question: Question) -> Args | None:
    """Nothing to be found for ranks in containers, and where a shell hides the engine."""
    deployment = question.deployment
    program = command(deployment) if deployment.runtime == "process" else None
    if program is None:
        return {"user": ""}
    env = kept(deployment)
    folders = _folders(env.get("PATH", SYSTEMD_PATH))
    return {
        "programs": list(paths(program, folders)),
        "folders": folders,
        "path": _folders(env.get("PYTHONPATH", "")),
        "user": deployment.user or "",
        "files": list(ENGINES[deployment.engine].stamped),
    }


def _folders(value: str) -> list[str]:
    return [folder for folder in value.split(":") if folder.startswith("/")]


ENGINE_PYTHON: Fact[EnginePython] = Fact("engine_python", parse, _args)
