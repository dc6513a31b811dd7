"""By what an engine is recognised: in the title of a process, in a command, in a unit or a script. One file for each engine.

A node has the node service and nothing else of sparkd, so this is the part of an engine that lives here; `recognised` lists
the files, on the head too. Engines that sparkd does not run have one as well: what is theirs must be told from what is ours.
"""

from __future__ import annotations

from typing import NamedTuple, Optional


class Signs(NamedTuple):
    """What is a pattern is one of `re`, without groups that capture."""

    name: str
    """As people write it in the names of their scripts."""
    engine: Optional[str] = None
    """As deployment files call it; None for what starts no ranks by itself."""
    titles: tuple[str, ...] = ()
    """What its processes write before `::` when they give themselves a title."""
    commands: tuple[tuple[str, ...], ...] = ()
    """A program and the first words after it that make a process of it one of the engine; of `python -m` without the Python."""
    images: tuple[str, ...] = ()
    """Parts of the names of images whose entry point is the engine."""
    starts: str = ""
    """A pattern of the words that start it, in the text of a unit or a script."""
    about: str = ""
    """A pattern of what has to do with it at all."""
    loosely: str = ""
    """The same where too much costs nothing; `about` where it is not said."""
