"""Socket, lines, owners, versions, limits: what holds whatever is asked."""

from __future__ import annotations

import ast
import ctypes
import json
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import sparkd.node

from .service import OTHER, OWNER, Connection, Service, wait_for

AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""The listening socket as descriptor 3, and the pid of the very process that may use it."""

MALFORMED = [
    b"hello",
    b"[]",
    b"7",
    b'"x"',
    b"{",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"v":' + b"9" * 5000 + b"}",
    b'{"v":1,"op":7}',
    b'{"v":1}',
    b'{"op":"hello"}',
    b'{"v":true,"op":"hello"}',
    b'{"v":1,"op":"no_such_verb"}',
    b'{"v":1,"op":"hello","args":[]}',
    b'{"v":1,"op":"hello","owner":7}',
    b'{"v":1,"op":"hello","deadline_s":NaN}',
    b'{"v":1,"op":"hello","deadline_s":-1}',
    b'{"v":1,"op":"hello","deadline_s":"soon"}',
    b'{"v":1,"op":"probe"}',
    b'{"v":1,"op":"probe","probes":[]}',
    b'{"v":1,"op":"probe","probes":["boot"]}',
    b'{"v":1,"op":"probe","probes":[{"name":"boot"},{"name":"boot"}]}',
]


@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: repr(line[:40]))
def test_malformed_line_gets_one_usage_answer(node: Connection, line: bytes) -> None:
    node.send(line + b"\n")
    answer = node.receive()
    assert (answer["ok"], answer["code"]) == (False, "usage")
    assert "\n" not in answer["error"]
    assert node.ask("hello")["ok"]


def test_huge_line_gets_one_usage_answer(node: Connection) -> None:
    node.send(b"x" * (3 << 20) + b"\n")
    assert node.receive()["code"] == "usage"
    assert node.ask("hello")["ok"]


def test_line_of_nearly_a_mebibyte_is_read(node: Connection) -> None:
    assert node.ask("hello", filler="x" * ((1 << 20) - 200))["ok"]
    assert node.ask("hello", filler="x" * (1 << 20))["code"] == "usage"


def test_request_without_an_end_is_not_performed(service: Service) -> None:
    with service.connect() as connection:
        connection.send(json.dumps({"v": 1, "owner": OWNER, "op": "claim"}).encode())
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.receive()["code"] == "usage"
        assert connection.ended()
    with service.connect() as connection:
        assert connection.ask("hello")["result"]["owner"] is None


def test_many_requests_in_one_packet(node: Connection) -> None:
    node.send(b"\n" + b'{"v":1,"op":"hello"}\n' * 3)
    assert [node.receive()["ok"] for _ in range(3)] == [True] * 3


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(service: Service, node: Connection) -> None:
    for _ in range(40):
        with service.connect() as leaving:
            leaving.send(b'{"v":1,"owner":"%s","op":"probe","probes":[{"name":"boot"}]}\n{"v":1' % OWNER.encode())
    wait_for("a free place", lambda: _answer(service).get("ok") is True)
    assert node.ask("hello")["ok"]


def test_fifty_clients_at_once_are_served_or_politely_refused(service: Service) -> None:
    with service.claimed():
        answers: list[dict[str, object]] = []
        start = threading.Barrier(50)

        def client() -> None:
            start.wait()
            ends = time.monotonic() + 50
            while time.monotonic() < ends:  # not a number of tries: refusals are quick, and places come back slowly
                with service.connect() as connection:
                    try:
                        connection.send(b'{"v":1,"op":"hello"}\n')
                    except BrokenPipeError:  # refused already: the answer waits for us
                        pass
                    answer = connection.receive()
                answers.append(answer)
                if answer["ok"]:
                    return

        threads = [threading.Thread(target=client) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sum(answer["ok"] is True for answer in answers) == 50
        assert {answer["code"] for answer in answers if not answer["ok"]} <= {"refused"}


def test_a_refused_client_that_is_gone_already_ends_nothing(service: Service) -> None:
    held = [service.connect() for _ in range(16)]
    assert all(connection.ask("hello")["ok"] for connection in held)
    assert service.process is not None
    service.process.send_signal(signal.SIGSTOP)
    for _ in range(20):
        service.connect().__exit__()
    service.process.send_signal(signal.SIGCONT)
    held[0].__exit__()
    wait_for("a free place", lambda: _answer(service).get("ok") is True)
    for connection in held[1:]:
        assert connection.ask("hello")["ok"]
        connection.__exit__()


def test_the_seventeenth_connection_is_refused_with_a_reason(service: Service) -> None:
    held = [service.connect() for _ in range(16)]
    assert all(connection.ask("hello")["ok"] for connection in held)
    with service.connect() as one_too_many:
        answer = one_too_many.receive()
        assert (answer["ok"], answer["code"]) == (False, "refused")
        assert one_too_many.ended()
    for connection in held:
        connection.__exit__()
    wait_for("a free place", lambda: _answer(service).get("ok") is True)


def test_hello_needs_no_owner_and_no_version(service: Service) -> None:
    with service.connect() as connection:
        answer = connection.ask("hello", owner="", v=99)
    assert answer["ok"]
    assert answer["result"]["protocols"] == [1]
    assert answer["result"]["hostname"] == socket.gethostname()
    assert answer["result"]["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_another_version_is_refused_with_the_spoken_ones(node: Connection) -> None:
    for op in ("probe", "claim", "signal"):
        answer = node.ask(op, v=2, probes=[{"name": "boot"}])
        assert answer["code"] == "version"
        assert "protocol 1, not 2" in answer["error"]


def test_nothing_is_done_before_a_claim(service: Service) -> None:
    with service.connect() as connection:
        for op in ("probe", "drop_caches", "unlink_shm", "signal", "read_file"):
            answer = connection.ask(op, probes=[{"name": "boot"}])
            assert answer["code"] == "owner"
            assert "claim" in answer["error"]


def test_the_second_owner_is_refused_until_it_takes_over(service: Service) -> None:
    with service.connect() as first, service.connect() as second:
        assert first.ask("claim")["result"] == {"owner": OWNER, "previous": None}
        assert first.ask("claim")["result"] == {"owner": OWNER, "previous": OWNER}
        refused = second.ask("claim", owner=OTHER)
        assert refused["code"] == "owner"
        assert OWNER in refused["error"]
        assert second.ask("probe", owner=OTHER, probes=[{"name": "boot"}])["code"] == "owner"
        assert second.ask("claim", owner=OTHER, args={"take": True})["result"] == {"owner": OTHER, "previous": OWNER}
        assert second.ask("probe", owner=OTHER, probes=[{"name": "boot"}])["probe"] == "boot"
        assert first.ask("signal")["code"] == "owner"


@pytest.mark.parametrize("owner", ["", "me", OWNER.upper().replace("1", "A"), OWNER + "0"])
def test_an_owner_is_a_uuid(service: Service, owner: str) -> None:
    with service.connect() as connection:
        assert connection.ask("claim", owner=owner)["code"] == "usage"


def test_the_owner_survives_a_restart(service: Service) -> None:
    with service.claimed():
        pass
    file = service.state / "owner"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == OWNER + "\n"
    service.stop(signal.SIGKILL)
    service.start()
    with service.connect() as connection:
        assert connection.ask("hello")["result"]["owner"] == OWNER
        assert connection.ask("claim", owner=OTHER)["code"] == "owner"


@pytest.mark.parametrize("content", ["", "11111111-1111", "\0" * 37])
def test_a_damaged_owner_file_is_nobodys_claim(unstarted: Service, content: str) -> None:
    unstarted.state.mkdir()
    (unstarted.state / "owner").write_text(content)
    unstarted.start()
    with unstarted.connect() as connection:
        assert connection.ask("claim")["code"] == "owner"
        assert connection.ask("probe", probes=[{"name": "boot"}])["code"] == "owner"
        assert connection.ask("claim", args={"take": True})["ok"]


def test_a_claim_that_cannot_be_stored_fails_and_changes_nothing(unstarted: Service) -> None:
    unstarted.state.write_text("a file where the folder should be")
    unstarted.start()
    with unstarted.connect() as connection:
        assert connection.ask("claim", args={"take": True})["code"] == "failed"
        assert connection.ask("probe", probes=[{"name": "boot"}])["code"] == "owner"


def test_sigterm_ends_it_with_zero_and_no_socket_left(service: Service) -> None:
    assert service.stop() == 0
    assert not service.socket.exists()


def test_a_socket_left_by_a_killed_service_is_replaced_and_a_living_one_is_not(service: Service) -> None:
    second = service.spawn([*service.argv(), "--socket", str(service.socket)])
    assert second.wait(10) == 1
    service.stop(signal.SIGKILL)
    assert service.socket.exists()
    service.start()
    assert stat.S_IMODE(service.socket.stat().st_mode) == 0o660


def test_socket_activation(unstarted: Service) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(unstarted.socket))
        listener.listen()
        number = listener.fileno()
        argv = [sys.executable, "-c", AS_SYSTEMD, str(number), *unstarted.argv()]
        unstarted.process = unstarted.spawn(argv, pass_fds=[number])
    with unstarted.connect() as connection:
        assert connection.ask("hello")["ok"]
    assert unstarted.stop() == 0
    assert unstarted.socket.exists(), "the socket belongs to systemd"


def test_without_a_socket_it_says_so(unstarted: Service) -> None:
    process = unstarted.spawn(unstarted.argv(), stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"--socket" in errors


def test_it_imports_the_standard_library_only(installed: Path) -> None:
    script = "import sys, sparkd.node.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    argv = [sys.executable, "-S", "-c", script]
    loaded = subprocess.run(argv, cwd=installed, capture_output=True, text=True, check=True, timeout=20).stdout.split()
    assert set(loaded) - sys.stdlib_module_names <= {"sparkd", "__main__"}


def test_every_module_is_python_3_9(installed: Path) -> None:
    for module in installed.rglob("*.py"):
        ast.parse(module.read_text(), str(module), feature_version=(3, 9))


def test_it_runs_on_the_oldest_python_here(unstarted: Service) -> None:
    unstarted.start(
        next(path for path in map(_works, ("python3.9", "python3.10", "python3.11", sys.executable)) if path)
    )
    with unstarted.claimed() as connection:
        names = ["boot", "meminfo", "system", "docker", "processes", "shm", "sockets", "ping", "paths"]
        args = {"ports": [1], "addresses": ["127.0.0.1"], "paths": ["/"], "environ": {"SPARKD_DEPLOYMENT": "none"}}
        answers = connection.probe(*({"name": name, "args": args} for name in names))
        assert all("text" in answers[name] for name in names), answers
        assert connection.verb("unlink_shm", names=["psm_sparkdtest_none"])["ok"]
        assert connection.verb("read_file", path="/etc/passwd")["code"] == "refused"


@pytest.mark.parametrize("source", sorted(Path(sparkd.node.__file__).parent.rglob("*.py")), ids=lambda path: path.name)
def test_every_file_is_python_3_9(source: Path) -> None:
    ast.parse(source.read_text("utf-8"), feature_version=(3, 9))


def _works(name: str) -> str | None:
    path = shutil.which(name)
    if path and subprocess.run([path, "-c", ""], check=False, capture_output=True, timeout=20).returncode == 0:
        return path
    return None


def _answer(service: Service) -> dict[str, object]:
    with service.connect() as connection:
        try:
            connection.send(b'{"v":1,"op":"hello"}\n')
        except BrokenPipeError:  # refused already
            pass
        return connection.receive()


def test_it_ends_at_once_also_when_the_signal_comes_to_another_of_its_threads(service: Service) -> None:
    """The kernel chooses the thread. One that serves a connection cannot raise in the thread that waits for the next."""
    assert service.process is not None
    with service.connect() as held:
        assert held.ask("hello")["ok"]
        tasks = {int(task.name) for task in Path(f"/proc/{service.process.pid}/task").iterdir()} - {service.process.pid}
        assert tasks
        assert ctypes.CDLL(None).tgkill(service.process.pid, min(tasks), int(signal.SIGTERM)) == 0
        assert service.process.wait(10) == 0
