"""Ranks as units: what is asked of systemd, and what is refused before it is asked. The lab has the real one."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import stat
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkd import render
from sparkd.model.config import ContainerSpec, Deployment, Node
from sparkd.node import journal, units
from sparkd.node.probes import paths, users
from sparkd.node.refusal import Refusal
from sparkd.node.verbs import ranks
from sparkd.runtimes.units import request

from .service import OWNER, Connection, Service, wait_for

DEPLOYMENT = Deployment(
    name="tiny",
    engine="vllm",
    nodes=("a",),
    runtime="process",
    user="nobody",
    command=("/bin/sh", "-c"),
    model="/models/m",
    args={"chat-template": "{{ $x }} ${HOME} %h"},
    env={"QUOTED": 'a "b" $HOME %h'},
    container=ContainerSpec(memory="2GiB", ulimits={"memlock": -1, "nofile": 4096}, workdir="/tmp"),
)


def spec(**changes: Any) -> Any:
    nodes = {"a": Node(name="a", address="local")}
    return render.rank_specs(replace(DEPLOYMENT, **changes), nodes, OWNER, 3)[0]


def asked(**changes: Any) -> dict[str, Any]:
    return {**request(spec(), {}), **changes}


def start(**changes: Any) -> Any:
    return ranks.start_rank(None, OWNER, asked(**changes), 5.0)  # type: ignore[arg-type]  # refused before it is used


def test_what_is_asked_of_systemd_is_what_render_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "MEMORY_V1", "/none")
    vector = ranks.command(ranks._rank(asked()), None)
    shown = shlex.split(render.as_docker(spec()).replace("\\\n", ""))
    assert sorted(set(vector) - {"--quiet", "--no-ask-password"}) == sorted(set(shown))
    assert vector[vector.index("--") :] == shown[shown.index("--") :]


def test_words_are_kept_from_systemds_own_replacements() -> None:
    vector = ranks.command(ranks._rank(asked()), "/run/x.env")
    assert vector[vector.index("--") + 1 :][-1] == "{{ $$x }} $${HOME} %h"
    assert '--setenv=QUOTED=a "b" $HOME %h' in vector
    odd = ranks.command(ranks._rank(asked(argv=["/opt/$x/vllm", "$y"])), None)
    assert odd[odd.index("--") + 1 :] == ["/opt/$x/vllm", "$$y"], "it is looked for by its path as it is"
    assert "--property=EnvironmentFile=/run/x.env" in vector
    assert {"--property=LimitMEMLOCK=infinity", "--property=LimitNOFILE=4096"} <= set(vector)
    assert {"--uid=nobody", "--working-directory=/tmp", f"--property=MemoryMax={2 << 30}"} <= set(vector)


@pytest.mark.parametrize("there", [True, False])
def test_only_control_groups_v1_need_help_with_oom_kills(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    monkeypatch.setattr(units, "MEMORY_V1", str(tmp_path if there else tmp_path / "none"))
    vector = ranks.command(ranks._rank(asked()), None)
    assert any(word.startswith("--property=ExecStopPost=") for word in vector) is there


def test_secrets_lie_in_a_file_for_root_alone_and_go_with_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    written = ranks._write_secrets(ranks._rank(asked(secrets={"HF_TOKEN": 'a"b$c`d\\e'})))
    assert written is not None
    assert Path(written).read_text() == 'HF_TOKEN="a\\"b\\$c\\`d\\\\e"\n'
    assert stat.S_IMODE(os.stat(written).st_mode) == 0o600
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemd-run there
    with pytest.raises(Refusal, match="no systemd-run"):
        start(secrets={"HF_TOKEN": "x"})
    assert list(tmp_path.iterdir()) == []


def test_two_starts_of_one_rank_do_not_take_each_others_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The refused one removed the file of the other: systemd found none, or the rank ran and was said to have failed."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    both, written = threading.Barrier(2, timeout=20), []

    def write(secret: str) -> None:
        both.wait()
        written.append((secret, ranks._write_secrets(ranks._rank(asked(secrets={"A": secret})))))
        both.wait()

    threads = [threading.Thread(target=write, args=(secret,)) for secret in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {secret: Path(path or "").read_text() for secret, path in written} == {
        "one": 'A="one"\n',
        "two": 'A="two"\n',
    }


def test_without_a_folder_for_them_secrets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    with pytest.raises(Refusal, match="RuntimeDirectory"):
        start(secrets={"HF_TOKEN": "x"})


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"name": "sshd"}, "usage", "name must be that of a rank"),
    ({"name": "sparkd-node"}, "usage", "name must be that of a rank"),
    ({"name": "sparkd-x-0.service\n"}, "usage", "name must be that of a rank"),
    ({"argv": []}, "usage", "absolute path"),
    ({"argv": ["vllm"]}, "usage", "absolute path"),
    ({"argv": ["/bin/sh", "a\0b"]}, "usage", "not allowed"),
    ({"env": {"A=B": "x"}}, "usage", "env must map"),
    ({"env": {"A": 1}}, "usage", "env must map"),
    ({"secrets": {"A": "x\0"}}, "usage", "secrets must map"),
    ({"secrets": {"A": "half \ud800"}}, "usage", "secrets must map"),
    ({"argv": ["/bin/sh", "half \udcff"]}, "usage", "not allowed"),
    ({"argv": ["/bin/sh", "x" * (1 << 21)]}, "usage", "bytes that a program can be given"),
    ({"env": {"A": "x" * (1 << 21)}}, "usage", "bytes that a program can be given"),
    ({"secrets": {"A": "é" * (1 << 20)}}, "usage", "bytes that a program can be given"),
    ({"labels": {"SPARKD_OWNER": "two words"}}, "usage", "plain words"),
    ({"labels": {"SPARKD_OWNER": "22222222-2222-4222-8222-222222222222"}}, "refused", "carries the id"),
    ({"workdir": "here"}, "usage", "workdir must be absolute"),
    ({"limits": {"files": 3}}, "usage", "limits must map"),
    ({"limits": {"nofile": True}}, "usage", "limits must map"),
    ({"memory_bytes": 0}, "usage", "memory_bytes"),
    ({"grace_s": -1}, "usage", "grace_s"),
    ({"user": "1000"}, "usage", "user must be the name"),
    ({"user": ""}, "usage", "user must be the name"),
    ({"user": "nobody-here"}, "user-missing", "user nobody-here does not exist"),
    ({"argv": ["/no/such/vllm", "serve"]}, "path-missing", "/no/such/vllm does not exist"),
    ({"argv": ["/tmp"]}, "not-executable", "/tmp is a folder"),
    ({"workdir": "/no/such"}, "path-missing", "/no/such does not exist"),
]


@pytest.mark.parametrize(("changes", "code", "words"), BAD)
def test_refused_before_systemd_is_asked(changes: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        start(**changes)
    assert (caught.value.code, words in caught.value.error) == (code, True), caught.value.error


def test_root_by_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", 0, 0, "", "/", "/bin/sh")))
    with pytest.raises(Refusal, match="user toor is root by another name"):
        start(user="toor")


def test_a_venv_whose_python_is_gone_is_named(tmp_path: Path) -> None:
    script, python = tmp_path / "vllm", tmp_path / "python"
    script.write_text(f"#!{python} -E\nprint()\n")
    python.symlink_to("/usr/bin/python0.0")
    assert paths.probe({"paths": [str(script)]}, 1.0) == f"no-interpreter {script}\n"
    with pytest.raises(Refusal, match=f"{python}, which runs {script}, does not exist"):
        start(argv=[str(script)])
    python.unlink()
    python.symlink_to("/bin/sh")
    assert paths.probe({"paths": [str(script)]}, 1.0) == f"file {script}\n"


@pytest.mark.parametrize("content", [b"", b"#!", b"#! ", b"\x7fELF", b"#!/bin/sh", b"#!/bin/sh -e\nrest"])
def test_files_without_a_missing_interpreter_are_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one").write_bytes(content)
    assert paths.kind(str(tmp_path / "one")) == "file"


def test_users() -> None:
    assert users.probe({"names": ["root", "nobody-here"]}, 1.0) == "root 0\nnobody-here missing\n"
    with pytest.raises(Refusal):
        users.probe({"names": ["a b"]}, 1.0)


def test_a_message_without_bounds_is_passed_over_and_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs a rank may log one of hundreds of megabytes, which came here as five times that."""
    entry = '{"MESSAGE": "%s", "__REALTIME_TIMESTAMP": "1795834270431228", "__CURSOR": "s=1;i=%d"}'
    code = f"for text, at in (('first', 1), ('x' * (64 << 20), 2), ('last', 3)): print({entry!r} % (text, at))"
    monkeypatch.setattr(journal, "JOURNALCTL", (sys.executable, "-c", code))
    tracemalloc.start()
    try:
        assert [line.text for line in journal.first("a" * 32, 10, 20.0)] == ["first", "last"]
        assert tracemalloc.get_traced_memory()[1] < 16 * journal.MAX_ENTRY_BYTES
    finally:
        tracemalloc.stop()


def test_an_empty_id_never_reaches_the_journal(node: Connection) -> None:
    for verb in ("stop_rank", "remove_rank", "rank_log"):
        assert node.verb(verb, name="sparkd-x-0", id="", tail=5)["code"] == "usage"
    assert node.verb("rank_log", id="a" * 32, tail=5, after="x y")["code"] == "usage"


def test_the_log_of_the_service_names_secrets_and_keeps_their_values(unstarted: Service) -> None:
    process = unstarted.spawn([*unstarted.argv(), "--socket", str(unstarted.socket)], stderr=subprocess.PIPE)
    unstarted.process = process
    wait_for("the node service listens", unstarted.socket.exists)
    short = asked(secrets={"HF_TOKEN": "s3cr3t"}, user="nobody-here", env={}, labels={"SPARKD_OWNER": OWNER})
    with unstarted.claimed() as node:
        refused = node.verb("start_rank", **{**short, "argv": ["/bin/sh"]})
    assert refused["code"] == "user-missing"
    unstarted.stop()
    logged = process.communicate()[1].decode()
    assert "HF_TOKEN" in logged
    assert "s3cr3t" not in logged


LINES = [
    (b'{"MESSAGE": "plain", "_PID": "7"}', "stdout", "plain"),
    (b'{"MESSAGE": [27, 91, 51, 49, 109, 195, 169], "_PID": "7"}', "stdout", "\x1b[31m\xe9"),
    (b'{"MESSAGE": null, "_PID": "7"}', "stdout", ""),
    (b'{"MESSAGE": "Started.", "_PID": "1"}', "systemd", "Started."),
]


@pytest.mark.parametrize(("raw", "stream", "text"), LINES)
def test_a_line_of_the_journal(raw: bytes, stream: str, text: str) -> None:
    line = journal._line(raw[:-1] + b', "__REALTIME_TIMESTAMP": "1795834270431228", "__CURSOR": "s=1;i=2"}')
    assert line == (1795834270.431228, stream, text, "s=1;i=2")


def test_a_long_log_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journalctl that never ends is ended as soon as there is enough, and one that says nothing at its deadline."""
    entry = json.dumps({"MESSAGE": "x" * 60000, "__REALTIME_TIMESTAMP": "1", "__CURSOR": "c"})
    monkeypatch.setattr(journal, "JOURNALCTL", (sys.executable, "-c", f"while True: print({entry!r})"))
    found = journal.last("a" * 32, 5000, None, 20.0)
    assert 0 < sum(len(line.text) for line in found) <= journal.MAX_CHARS
    sleep = "import time; time.sleep(60)"
    for code in (sleep, f"print({entry[:70]!r}, end='', flush=True); {sleep}"):  # killed within a line
        monkeypatch.setattr(journal, "JOURNALCTL", (sys.executable, "-c", code))
        with pytest.raises(Refusal, match=r"did not end in 1 s"):
            journal.following("a" * 32, "c", 1.0)
