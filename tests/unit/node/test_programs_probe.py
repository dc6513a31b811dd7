"""The `programs` probe on real processes: what the main process was started with, never what a child calls itself."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.facts import Question, programs, rdma
from sparkd.facts.programs import PROGRAMS, Program
from sparkd.model.config import Cluster, Deployment
from sparkd.model.secret import HIDDEN
from sparkd.node.probes import programs as probe
from sparkd.node.probes.rdma import CAP_IPC_LOCK

from .service import Connection

MAIN = """\
import ctypes, mmap, os, sys
library, ready = os.environ["LIBRARY"], os.environ["READY"]
if os.fork() == 0:
    with open(library, "rb") as file:
        kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    open(ready + ".twin", "w").write(str(os.getpid()))
    sys.stdin.read()
    os._exit(0)
if os.fork() == 0:
    wait = f"open({ready + '.child'!r}, 'w'); import sys; sys.stdin.read()"
    argv = ["VLLM::Worker_TP0", "-S", "-c", wait]
    os.execve(sys.executable, argv, {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"})
sys.stdin.read()
"""
SECRETS = ("tok-0123456789", "key-0123456789", "inline-0123456789")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`vllm serve` with a twin that has not renamed itself yet and has a libnccl mapped, and a worker that has."""
    script, library = tmp_path / "vllm", tmp_path / "libnccl.so.2"
    script.write_text(MAIN)
    library.write_bytes(b"\x7fELF nccl" * mmap.PAGESIZE)
    env = {
        "LIBRARY": str(library),
        "READY": str(tmp_path / "ready"),
        "VLLM_WORKER_MULTIPROC_METHOD": "fork",
        "HF_TOKEN": SECRETS[0],
        "MY_ODD_ONE": "odd-0123456789",
        "AWS_SESSION": "aws-0123456789",
        "AWS_REGION": "eu-west-1",
        "GCP_CREDENTIALS_JSON": "gcp-0123456789",
        "URL": f"http://u:{SECRETS[0]}@x",
        "EMPTY": "",
    }
    words = ["--api-key", SECRETS[1], "--max-num-batched-tokens", "8192", f"--admin-key={SECRETS[2]}", "--port", "8000"]
    argv = [sys.executable, str(script), "serve", "/models/x", *words, "--speculative-config", '{"a": [1]}']
    process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE)
    until = time.monotonic() + 20
    while not all((tmp_path / f"ready.{one}").exists() for one in ("twin", "child")):
        assert time.monotonic() < until
        assert process.poll() is None
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)


def ask(node: Connection, pid: int) -> Program:
    args = PROGRAMS.args(Question(Cluster(cluster="x", nodes={}), Deployment(name="x", engine="vllm", nodes=()), "x"))
    found = programs.parse(node.text("programs", **(args or {})))
    return next(one for one in found if one.pid == pid)


def test_the_main_process_and_none_of_its_children(
    node: Connection, engine: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = ask(node, engine.pid)
    assert found.argv[1:4] == (str(tmp_path / "vllm"), "serve", "/models/x")
    assert found.argv[-1] == '{"a": [1]}'
    assert found.env is not None
    assert (found.env["VLLM_WORKER_MULTIPROC_METHOD"], found.env["EMPTY"]) == ("fork", "")
    args = PROGRAMS.args(Question(Cluster(cluster="x", nodes={}), Deployment(name="x", engine="vllm", nodes=()), "x"))
    mine = [one for one in programs.parse(node.text("programs", **(args or {}))) if str(tmp_path / "vllm") in one.argv]
    assert [one.pid for one in mine] == [engine.pid]


def test_no_secret_leaves_the_node(node: Connection, engine: subprocess.Popen[bytes]) -> None:
    text = node.text("programs", hide=["_TOKEN", "_KEY", "_SECRET", "PASSWORD"])
    assert not [secret for secret in SECRETS if secret in text]
    found = ask(node, engine.pid)
    words = dict(zip(found.argv, found.argv[1:], strict=False))
    assert (words["--api-key"], words["--max-num-batched-tokens"]) == (HIDDEN, "8192")
    assert f"--admin-key={HIDDEN}" in found.argv
    assert found.env is not None
    assert (found.env["HF_TOKEN"], found.env["URL"]) == (HIDDEN, f"http://u:{HIDDEN}@x")


def test_names_of_other_shapes_and_those_under_secrets_are_hidden_on_the_node(
    node: Connection, engine: subprocess.Popen[bytes]
) -> None:
    deployment = Deployment(name="x", engine="vllm", nodes=(), secrets={"MY_ODD_ONE": "/etc/sparkd/odd"})
    text = node.text("programs", **(PROGRAMS.args(Question(Cluster(cluster="x", nodes={}), deployment, "x")) or {}))
    assert not [secret for secret in ("odd-0123", "aws-0123", "gcp-0123", *SECRETS) if secret in text]
    found = next(one for one in programs.parse(text) if one.pid == engine.pid)
    assert found.env is not None
    assert found.env["AWS_REGION"] == "eu-west-1"


def test_without_the_endings_of_secrets_it_says_nothing(node: Connection) -> None:
    answer = node.probe({"name": "programs", "args": {}})["programs"]
    assert "hide" in str(answer["error"])


def test_libraries_that_a_child_has_mapped_by_their_content(
    node: Connection, engine: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    library = tmp_path / "libnccl.so.2"
    assert ask(node, engine.pid).libraries == {str(library): hashlib.sha256(library.read_bytes()).hexdigest()}


def test_what_the_main_process_may_lock_and_see(node: Connection, engine: subprocess.Popen[bytes]) -> None:
    _, hard = resource.prlimit(engine.pid, resource.RLIMIT_MEMLOCK)
    resource.prlimit(engine.pid, resource.RLIMIT_MEMLOCK, (4096, hard))
    text = node.text("rdma")
    (line,) = [line for line in text.splitlines() if line.startswith(f"{engine.pid} ")]
    assert line.split()[2] == "4096"
    (found,) = [one for one in rdma.parse(text) if one.pid == engine.pid]
    capabilities = int(re.findall(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())[0], 16)
    assert found.memlock_bytes == (None if capabilities >> CAP_IPC_LOCK & 1 else 4096)
    there = Path("/dev/infiniband")
    assert found.devices == (tuple(sorted(os.listdir(there))) if there.is_dir() else ())


def test_the_probe_hides_with_the_words_of_the_head() -> None:
    assert probe.HIDDEN == HIDDEN
