"""Reads the case files beside it: broken configuration, and the exact problems it must give."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

CLUSTER = """\
cluster: desk
nodes:
  a: {address: local, data_address: 10.0.0.1}
  b: {address: 192.168.1.12, data_address: 10.0.0.2}
  c: {address: 192.168.1.13}
"""

DEPLOYMENT = """\
name: d
engine: vllm
nodes: [a, b]
image: registry/image:tag
model: /models/m
args: {tensor-parallel-size: 2}
"""

_GOOD = {"+ cluster": CLUSTER, "+ deployment": DEPLOYMENT}


class Case(NamedTuple):
    name: str
    text: str
    problems: tuple[str, ...]


def cases(file: str) -> list[Case]:
    """A case is `### NAME`, the text, `=>`, one problem a line without the file name; `+ …` stands for a good file."""
    blocks = (HERE / file).read_text().split("### ")[1:]
    return [_case(block) for block in blocks]


def _case(block: str) -> Case:
    name, _, rest = block.partition("\n")
    text, _, problems = rest.partition("=>\n")
    for mark, good in _GOOD.items():
        text = text.replace(f"{mark}\n", good)
    return Case(name, text, tuple(line for line in problems.splitlines() if line))


def write(folder: Path, cluster: str = CLUSTER, **deployments: str) -> Path:
    """A configuration directory with these files."""
    (folder / "deployments").mkdir()
    (folder / "sparkd.yaml").write_text(cluster)
    for name, text in deployments.items():
        (folder / "deployments" / f"{name}.yaml").write_text(text)
    return folder
