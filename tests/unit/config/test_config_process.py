"""Deployments of the process runtime: what they need, and what only a container can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sparkd.settings import check, load

CLUSTER = "cluster: c\nnodes: {a: {address: local}}\n"
GOOD: dict[str, Any] = {
    "name": "d",
    "engine": "vllm",
    "runtime": "process",
    "hardware": "gpu",
    "nodes": ["a"],
    "user": "vllm",
    "command": ["/srv/venv/bin/vllm", "serve"],
    "model": "/srv/models/m",
}
WHOLE = {**GOOD, "container": {"workdir": "/srv", "memory": "90GiB", "ulimits": {"memlock": -1}}}


def written(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "deployments").mkdir()
    (folder / "sparkd.yaml").write_text(CLUSTER)
    with (folder / "deployments" / "d.yaml").open("w") as file:
        YAML().dump(content, file)
    return folder


@pytest.mark.parametrize("content", [GOOD, WHOLE, {**GOOD, "user": "root"}])
def test_what_it_needs_is_enough(tmp_path: Path, content: dict[str, Any]) -> None:
    (deployment,) = load(written(tmp_path, content)).deployments
    assert (deployment.runtime, deployment.user) == ("process", content["user"])
    assert set(deployment.sources) >= {"/srv/venv/bin/vllm", "/srv/models/m"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"image": "vllm:1"}, "image: runtime process runs no image (leave it out, or write `runtime: docker`)"),
    ({"user": None}, "user: `user` is missing (write the user that the ranks run as, such as `user: vllm`)"),
    ({"user": "1000"}, "user: `1000` is no name of a user (write a name, not a number)"),
    ({"command": None}, "command: `command` is missing (write the program and what follows it, such as"),
    ({"command": ["vllm", "serve"]}, "command[0]: "),
    ({"command": ["~/venv/bin/vllm"]}, "command[0]: "),
    (
        {"container": {"privileged": False}},
        "container.privileged: `privileged` is for containers, not for runtime proc",
    ),
    ({"container": {"gpus": None}}, "container.gpus: `gpus` is for containers"),
    ({"container": {"mounts": [{"source": "/a", "target": "/b"}]}}, "container.mounts: `mounts` is for containers"),
    ({"container": {"user": "milo"}}, "container.user: `user` is for containers"),
    ({"container": {"log": {"max_size": "10m"}}}, "container.log: `log` is for containers"),
    ({"container": {"ulimits": {"nofiles": 4096}}}, "`nofiles` is no limit of a process"),
]


@pytest.mark.parametrize(("changes", "text"), BAD)
def test_what_is_wrong_is_said(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    content = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    (problem,) = check(written(tmp_path, content))
    assert text in str(problem)
