"""Which Python a script's first lines name, which program a command is, and which mounts carry an engine."""

from __future__ import annotations

import pytest

from sparkd.commandline.engine_program import command, paths
from sparkd.model.config import ContainerSpec, Deployment, Mount
from sparkd.node.shebang import interpreter
from sparkd.runtimes.engine_python import carrying


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("#!/opt/venv/bin/python\nimport sys\n", "/opt/venv/bin/python"),
        ("#! /usr/bin/python3.12 -I\n", "/usr/bin/python3.12"),
        ("#!/usr/bin/env python3\n", "python3"),
        ("#!/usr/bin/env -S python3 -E\n", "python3"),
        ("#!/bin/sh\n'''exec' \"/very/long/path/bin/python3\" \"$0\" \"$@\"\n' '''\n", "/very/long/path/bin/python3"),
        ("#!/bin/sh\n'''exec' /very/long/path/bin/python3 \"$0\" \"$@\"\n' '''\n", "/very/long/path/bin/python3"),
        ("#!/bin/bash\nexec python3 -m vllm\n", None),
        ("#!\n", None),
        ("\x7fELF\x02", None),
        ("", None),
    ],
)
def test_the_python_of_a_script(text: str, python: str | None) -> None:
    assert interpreter(text) == python


def deployment(*words: str, mounts: tuple[tuple[str, str], ...] = ()) -> Deployment:
    container = ContainerSpec(mounts=tuple(Mount(source=source, target=target) for source, target in mounts))
    return Deployment(name="d", engine="vllm", nodes=("a",), image="i", command=words, container=container)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ((), "vllm"),
        (("/lab/vllm/bin/vllm", "serve"), "/lab/vllm/bin/vllm"),
        (("env", "A=1", "nice", "-n", "5", "vllm", "serve"), "vllm"),
        (("python3", "-m", "vllm.entrypoints.openai.api_server"), "python3"),
        (("bash", "-c", "vllm serve"), None),
    ],
)
def test_the_program_of_a_command(words: tuple[str, ...], program: str | None) -> None:
    assert command(deployment(*words)) == program


def test_the_mounts_that_carry_the_engine() -> None:
    patch = ("/srv/mods/envs.py", "/usr/lib/python3/dist-packages/vllm/envs.py")
    one = deployment(mounts=(("/lab", "/lab"), ("/models", "/models"), ("/cache", "/root/.cache"), patch))
    needed = paths("/lab/vllm/bin/vllm", ())
    assert [mount.target for mount in carrying(one, needed)] == ["/lab", patch[1]]
    assert [mount.target for mount in carrying(one, paths("vllm", ("/usr/bin", "", "relative")))] == [patch[1]]
    assert carrying(deployment(mounts=(("/labs", "/labs"),)), needed) == ()
