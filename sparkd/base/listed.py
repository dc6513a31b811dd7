"""A folder of modules -> what each of them holds: a new one is one file there, and no list names it a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

T = TypeVar("T")


def each(
    package: str, folders: Iterable[str], constant: str, name: Callable[[T], str], *, packages: bool = False
) -> list[T]:
    """That constant of every module of the package, or of every package in it. What an editor or a copy leaves there
    (`swap copy.py`, `._swap.py`) is no module, and is passed over.

    Raises ImportError, naming the files, for a module without the constant, and for two of one name: the second would take the
    place of the first in silence.
    """
    held: dict[str, str] = {}
    found: list[T] = []
    for file in iter_modules(folders):
        if file.ispkg is not packages or not file.name.isidentifier():
            continue
        module = import_module(f"{package}.{file.name}")
        if not hasattr(module, constant):
            raise ImportError(f"{module.__file__} holds no {constant}")
        one: T = getattr(module, constant)
        other = held.setdefault(name(one), file.name)
        if other != file.name:
            raise ImportError(f"{package}: {other} and {file.name} both hold {name(one)!r}")
        found.append(one)
    return found
