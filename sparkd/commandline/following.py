"""What is known while the files of one side are followed, and what a followed shell offers to the commands in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sparkd.commandline.docker_run import Container
from sparkd.commandline.scope import Scope
from sparkd.drift.form import Gap, RankForm

Find = Callable[[str], tuple[str, str] | None]
"""Path as a script names it -> (text, how to call that file), or None where it is not at hand."""


@dataclass(slots=True)
class World:
    """What is known of all nodes while files are followed."""

    find: Find = lambda _: None
    containers: dict[tuple[str | None, str], Container] = field(default_factory=dict)
    ranks: list[RankForm] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    missed: list[Gap] = field(default_factory=list)
    """Commands that seem to start an engine in a way that is not followed: worth a word where nothing else does."""
    commands: int = 0
    given: Mapping[str, str] = field(default_factory=dict)
    """Variables that a person says the shell around has."""

    def gap(self, where: str, text: str, why: str) -> None:
        self.gaps.append(Gap(where=where, text=text, why=why))


class Following(Protocol):
    """One shell at work on one file, as `sparkd.commandline.script` follows it."""

    world: World
    scope: Scope
    line: int

    @property
    def where(self) -> str:
        """`FILE:LINE` of the command that is followed now."""

    def run(self, text: str, line: int = 1) -> None:
        """Follow this text, which begins at that line of the file."""

    def words(self, words: Sequence[str], stdin: str | None = None) -> None:
        """Follow one command, after all expansions."""

    def inner(self, scope: Scope) -> Following:
        """A shell within this one."""

    def source(self, found: tuple[str, str]) -> None:
        """Follow another file (its text and name) in this shell."""

    def within(self, container: Container, extra: dict[str, str]) -> Following:
        """A shell in that container, with these variables besides."""

    def around(self, name: str) -> str:
        """The value of one of the shell's variables; one that is not set is a gap."""

    def rank(self, engine: str, program: tuple[str, ...], words: list[str]) -> None:
        """An engine is started here, by these arguments."""
