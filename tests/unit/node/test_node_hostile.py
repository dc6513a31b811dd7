"""Clients and users of a node who mean harm: the service goes on, and they hold up nobody else."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkd.node import config, node, server
from sparkd.node.probes import PROBES
from sparkd.node.server import Server

from .service import OWNER, Connection, Service, wait_for


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The socket of a service in this process, in which silence is noticed soon."""
    monkeypatch.setattr(server, "GIVES_WAY_S", 0.2)
    path = tmp_path / "s"
    ends, end = socket.socketpair()
    with ends, end, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(64)
        this = node.this(config.Config(state_dir=str(tmp_path / "state")))

        serving = threading.Thread(target=Server(this).serve, args=(listener, ends), daemon=True)
        serving.start()
        yield path
        end.send(b"x")
        serving.join(10)
        assert not serving.is_alive()


def hello(path: Path) -> dict[str, object]:
    with Connection(path) as connection:
        try:
            connection.send(b'{"v":1,"op":"hello"}\n')
        except BrokenPipeError:  # refused already: the answer waits for us
            pass
        return connection.receive()


def test_silent_connections_give_way_to_who_asks(full: Path) -> None:
    """Dead sshds hold them, sixteen after a bad hour, and the head was refused for ten minutes."""
    silent = [Connection(full) for _ in range(16)]
    silent[0].send(b'{"v":1,"op":')  # half a request is silence too
    wait_for("somebody is answered", lambda: hello(full).get("ok") is True)
    assert all(hello(full)["ok"] for _ in range(20))
    assert silent[0].ended()
    assert silent[15].ask("hello")["ok"], "the longest silence went first, and one place is enough"
    for one in silent:
        one.__exit__()


def test_nothing_is_done_for_a_connection_that_has_just_given_way(tmp_path: Path) -> None:
    """Its request came at the same moment; its answer could not be sent, so nobody would know that it was obeyed."""
    this = node.this(config.Config(state_dir=str(tmp_path / "state")))
    ours, theirs = socket.socketpair()
    serving = Server(this)
    assert serving._slots.acquire(blocking=False)
    with theirs:
        theirs.sendall(b'{"v":1,"op":"claim","owner":"%s"}\n' % OWNER.encode())
        serving._session(ours)
        assert theirs.recv(4096) == b""
    assert this.owner.owner is None


def test_an_answer_that_nobody_would_read_is_a_refusal(unstarted: Service) -> None:
    """4 MiB of zero bytes are 24 MiB of JSON, which the head takes for rubbish."""
    root = unstarted.folder / "root"
    root.mkdir()
    (root / "core").write_bytes(bytes(4 << 20))
    (root / "log").write_bytes(b'a "quoted" line\n' * (1 << 18))
    unstarted.config.write_text(json.dumps({"read_roots": [str(root)]}))
    unstarted.start()
    with unstarted.claimed() as owner:
        answer = owner.verb("read_file", path=str(root / "core"), max_bytes=4 << 20)
        assert (answer["ok"], answer["code"]) == (False, "failed")
        assert "25166" in answer["error"]
        assert answer["boot_id"]
        assert len(owner.verb("read_file", path=str(root / "log"), max_bytes=4 << 20)["result"]["text"]) == 4 << 20


def test_a_probe_that_nobody_would_read_costs_only_itself(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PROBES", {**PROBES, "boot": lambda args, deadline_s: "\0" * (2 << 20)})
    with Connection(full) as owner:
        assert owner.ask("claim")["ok"]
        answers = owner.probe({"name": "boot"}, {"name": "meminfo"})
    assert answers["boot"]["code"] == "failed"
    assert "more than" in answers["boot"]["error"]
    assert answers["meminfo"]["text"]


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_what_is_no_segment_does_not_end_the_cleanup(node: Connection, kind: str) -> None:
    """Anyone may create one in /dev/shm, and then no engine's memory was given back any more."""
    mark = uuid.uuid4().hex[:8]
    odd, segment = Path(f"/dev/shm/psm_a{mark}"), Path(f"/dev/shm/psm_b{mark}")
    make: dict[str, Callable[[], None]] = {
        "folder": odd.mkdir,
        "link": lambda: odd.symlink_to("/etc/passwd"),
        "fifo": lambda: os.mkfifo(odd),
    }
    segment.write_bytes(b"x")
    make[kind]()
    try:
        assert odd.name not in node.text("shm")
        assert node.verb("unlink_shm", names=[odd.name, segment.name], min_age_s=0)["result"] == {
            odd.name: "absent",
            segment.name: "unlinked",
        }
        assert os.path.lexists(odd)
    finally:
        segment.unlink(missing_ok=True)
        odd.rmdir() if kind == "folder" else odd.unlink()
