"""The package as a graph: which module imports which, and where such arrows run in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SPARKD = Path(__file__).resolve().parents[3] / "sparkd"

Graph = Mapping[str, frozenset[str]]


def modules(root: Path = SPARKD) -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        words = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


def graph(files: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Every import counts: inside a function, and for the type checker alone, too."""
    return {name: frozenset(_imported(name, path, files)) - {name} for name, path in files.items()}


def _imported(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for one in node.names:
                inner = f"{source}.{one.name}"
                if (found := inner if inner in files else source) in files:
                    yield found


def rooms(of: Graph) -> dict[str, frozenset[str]]:
    """The same between the folders, and the loose files, of the package itself."""
    found: dict[str, set[str]] = {}
    for name, imported in of.items():
        if room := _room(name):
            found.setdefault(room, set()).update(other for one in imported if (other := _room(one)) not in ("", room))
    return {room: frozenset(others) for room, others in found.items()}


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _room(name: str) -> str:
    return ".".join(name.split(".")[1:2])


def circle(of: Graph) -> list[str]:
    """One circle, from a module round to itself; nothing where there is none."""
    try:
        TopologicalSorter(of).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def functions(path: Path) -> Iterable[tuple[str, int]]:
    """Name and number of lines of each function in a file."""
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
