"""What the probes say about real processes, sockets and files, read with the head's own parsers."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkd.facts import boot, docker, memory, paths, ping, processes, shm, sockets, system, work
from sparkd.model.machine import Process, ShmSegment, Socket, Work
from sparkd.node import procfs, tcp
from sparkd.node.probes import docker as docker_probe
from sparkd.node.probes import work as work_probe
from sparkd.node.probes.processes import Wanted

from .service import Connection, Service, identity, wait_for

SLEEP = [sys.executable, "-S", "-c", "import time; print(flush=True); time.sleep(300)"]
A, B = "a" * 64, "b" * 64


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that have printed a line when they are handed over, and ends them after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str], **options: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        started.append(process)
        assert process.stdout.readline()
        return process  # type: ignore[no-any-return]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ours(node: Connection, deployment: str, **more: str) -> dict[int, Process]:
    found = processes.parse(node.text("processes", environ={"SPARKD_DEPLOYMENT": deployment, **more}))
    return {process.pid: process for process in found}


def sockets_on(node: Connection, *ports: int) -> tuple[Socket, ...]:
    return sockets.parse(node.text("sockets", ports=list(ports)))


def test_boot(node: Connection) -> None:
    fact = boot.parse(node.text("boot"))
    assert fact.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert fact.pid1_ticks == identity(1)[1]
    assert fact.hostname == socket.gethostname()
    assert fact.clk_tck == os.sysconf("SC_CLK_TCK")
    assert abs(fact.now - time.time()) < 30
    assert abs(fact.uptime_s - time.clock_gettime(time.CLOCK_BOOTTIME)) < 30


def test_every_answer_names_the_boot(node: Connection) -> None:
    fact, done = boot.parse(node.text("boot")), node.probe({"name": "boot"})["done"]
    hello = node.ask("hello")
    for answer in (done, hello, hello["result"]):
        assert (answer["boot_id"], answer["pid1_ticks"]) == (fact.boot_id, fact.pid1_ticks)


def test_meminfo(node: Connection) -> None:
    fact = memory.parse(node.text("meminfo"))
    assert fact.total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < fact.free <= fact.available <= fact.total


def test_system_is_systemctls_word(service: Service, node: Connection) -> None:
    service.program("systemctl", '[ "$*" = is-system-running ] && echo degraded; exit 1')
    assert system.parse(node.text("system")) == "degraded"


def test_system_that_says_nothing_has_failed(service: Service, node: Connection) -> None:
    service.program("systemctl", "echo 'Connection refused' >&2; exit 1")
    answer = node.probe({"name": "system"})["system"]
    assert answer["code"] == "failed"
    assert "Connection refused" in answer["error"]


def test_an_unknown_probe_is_told_apart(node: Connection) -> None:
    answers = node.probe({"name": "horoscope"}, {"name": "boot"})
    assert answers["horoscope"]["code"] == "unknown"
    assert "text" in answers["boot"]


# ------------------------------------------------------------------------------------------------------------ processes


def test_processes_by_environment(node: Connection, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    name = f"sparkdtest-{uuid.uuid4()}"
    mine = spawn(SLEEP, env={"SPARKD_DEPLOYMENT": name, "SPARKD_OWNER": "me"})
    spawn(SLEEP, env={"SPARKD_DEPLOYMENT": f"{name}2", "SPARKD_OWNER": "me"})
    (found,) = ours(node, name, SPARKD_OWNER="me").values()
    assert (found.pid, found.ppid, found.start_ticks) == (mine.pid, os.getpid(), identity(mine.pid)[1])
    assert (found.state in "RS", found.owner) == (True, "-")
    assert found.title == " ".join(SLEEP)
    assert 1 << 20 < found.rss_bytes < 1 << 30
    assert not ours(node, name, SPARKD_OWNER="another")


@pytest.mark.parametrize(("keeper", "told"), [("containerd-shim-runc-v2", 0), ("conmon", 0), ("bash", 1)])
def test_in_a_living_container_the_environment_says_nothing(
    node: Connection, spawn: Callable[..., subprocess.Popen[bytes]], keeper: str, told: int
) -> None:
    """`docker commit` and copied env files put a rank's variables into containers that are somebody else's."""
    name = f"sparkdtest-{uuid.uuid4()}"
    inner = [sys.executable, "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    script = f"SPARKD_OWNER=me SPARKD_DEPLOYMENT={name} {shlex.join(inner)}; :"
    spawn([f"/usr/bin/{keeper}", "-c", script], executable="/bin/sh")
    assert len(ours(node, name, SPARKD_OWNER="me")) == told


def test_a_stopped_process_and_a_zombie(node: Connection, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    name = f"sparkdtest-{uuid.uuid4()}"
    stopped = spawn(SLEEP, env={"SPARKD_DEPLOYMENT": name})
    stopped.send_signal(signal.SIGSTOP)
    wait_for("it is stopped", lambda: ours(node, name)[stopped.pid].state == "T")
    stopped.kill()
    wait_for("it is a zombie", lambda: identity(stopped.pid)[0] == "Z")
    # A zombie has no environment any more, so only its control group can name it.
    assert not ours(node, name)


def test_names_that_look_like_other_fields(node: Connection, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A process may call itself anything; identity must not be read from its name."""
    name = f"sparkdtest-{uuid.uuid4()}"
    script = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b') R 1\\n2 (', 0, 0, 0); print(flush=True); time.sleep(300)"
    )
    odd = spawn([sys.executable, "-c", script, "a\tb\nc", "é"], env={"SPARKD_DEPLOYMENT": name})
    (found,) = ours(node, name).values()
    assert (found.pid, found.ppid, found.start_ticks) == (odd.pid, os.getpid(), identity(odd.pid)[1])
    wait_for("it sleeps", lambda: ours(node, name)[odd.pid].state == "S")
    assert found.title.endswith("a b c é")


CGROUPS = {
    "v2-systemd": f"0::/system.slice/docker-{A}.scope\n",
    "v2-cgroupfs": f"0::/docker/{A}\n",
    "v1-cgroupfs": f"9:name=systemd:/docker/{A}\n8:pids:/docker/{A}\n0::/docker/{A}\n",
    "v1-systemd": f"4:memory:/system.slice/docker-{A}.scope\n0::/\n",
    "deeper": f"0::/docker/{A}/init.scope\n",
    "nested": f"0::/docker/{B}/docker/{A}\n",
    "nested-both": f"0::/system.slice/docker-{B}.scope/system.slice/docker-{A}.scope\n",
    "podman": f"0::/machine.slice/libpod-{A}.scope/container\n",
    "with-colon": f"0::/odd:name/docker-{A}.scope\n",
}


@pytest.mark.parametrize("layout", CGROUPS)
@pytest.mark.parametrize("asked", [A, A[:12]])
def test_container_of_a_control_group(layout: str, asked: str) -> None:
    assert wanted(asked, B).owner(CGROUPS[layout].encode()) == asked


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/\n",
        "0::/user.slice\n",
        f"0::/docker/{B}\n",
        f"0::/docker/x{A}\n",
        f"0::/docker/{A}0\n",
        f"0::/docker-{A}.service\n",
        "",
    ],
)
def test_another_control_group(cgroup: str) -> None:
    assert wanted(A).owner(cgroup.encode()) is None


def test_unit_of_a_control_group() -> None:
    assert wanted("rank-0.service").owner(b"0::/system.slice/rank-0.service\n") == "rank-0.service"
    assert wanted("rank-0.service").owner(b"0::/system.slice/other-rank-0.service\n") is None


def wanted(*names: str) -> Wanted:
    units = frozenset(name for name in names if "." in name)
    containers = tuple(name for name in names if "." not in name)
    return Wanted(containers, units, tuple(name.encode() for name in names), frozenset())


@pytest.mark.parametrize(
    "args",
    [
        {"containers": ["x"]},
        {"containers": "a"},
        {"containers": [7]},
        {"units": ["a/b"]},
        {"environ": {"A": 1}},
        {"environ": []},
    ],
)
def test_processes_refuses_what_is_no_name(node: Connection, args: dict[str, object]) -> None:
    assert node.probe({"name": "processes", "args": args})["processes"]["code"] == "refused"


# --------------------------------------------------------------------------------------------------------------- work


def test_work_counts_cpu_and_bytes_of_a_container_and_of_children_that_ended(
    spawn: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the control group is made up; the figures are the kernel's."""
    code = (
        "import subprocess, sys\n"
        "for line in sys.stdin:\n"
        "    if line == 'child\\n': subprocess.run([sys.executable, '-S', '-c', 'sum(range(6_000_000))'])\n"
        "    if line == 'bytes\\n': open('/dev/zero', 'rb').read(200_000)\n"
        "    print(flush=True)\n"
    )
    process = spawn([sys.executable, "-S", "-c", f"print(flush=True)\n{code}"])
    assert process.stdin is not None
    assert process.stdout is not None
    real = procfs.read_record

    def read_record(path: str) -> bytes:
        if path.endswith("/cgroup"):
            return f"0::/docker/{A}\n".encode() if path == f"/proc/{process.pid}/cgroup" else b"0::/\n"
        return real(path)

    monkeypatch.setattr(procfs, "read_record", read_record)

    def done() -> Work:
        (one,) = work.parse(work_probe.probe({"containers": [A, B], "units": []}, 1.0))
        return one

    first = done()
    assert first.owner == A
    assert done() == first, "it sleeps"
    for asked in ("bytes", "child"):
        process.stdin.write(f"{asked}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline()
    after = done()
    assert after.io_bytes - first.io_bytes >= 200_000
    assert after.cpu_ms - first.cpu_ms >= 20, "of a child that is gone"


def test_work_of_no_rank_is_nothing(node: Connection) -> None:
    assert node.text("work", containers=[B], units=["sparkd-none-0.service"]) == ""
    assert node.text("work") == ""
    assert node.probe({"name": "work", "args": {"containers": ["x"]}})["work"]["code"] == "refused"


# -------------------------------------------------------------------------------------------------------------- sockets


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_widowed_connection_names_its_process(node: Connection, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        port = listener.getsockname()[1]
        rank = socket.create_connection((address, port))
        master, _ = listener.accept()
        (mine,) = [one for one in sockets_on(node, port) if one.remote_port == port]
        assert (mine.state, mine.remote_ip) == ("ESTABLISHED", address)
        master.close()
        wait_for("the rank is widowed", lambda: "CLOSE_WAIT" in {one.state for one in sockets_on(node, port)})
        (mine,) = [one for one in sockets_on(node, port) if one.remote_port == port]
        assert (mine.pid, mine.inode) == (os.getpid(), os.fstat(rank.fileno()).st_ino)
        assert mine.local_port == rank.getsockname()[1]
        rank.close()


def test_ipv4_clients_of_a_dual_stack_listener_show_as_ipv4(node: Connection) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            found = {(one.state, one.local_ip, one.remote_ip) for one in sockets_on(node, port)}
    assert found == {("LISTEN", "::", "::"), ("ESTABLISHED", "127.0.0.1", "127.0.0.1")}


def test_an_unread_queue_is_counted(node: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as sender, listener.accept()[0]:
            sender.setblocking(False)
            while sender in select.select([], [sender], [], 0.2)[1]:
                sender.send(b"x" * 65536)
            (queue,) = [one.tx_queue for one in sockets_on(node, port) if one.remote_port == port]
    assert queue > 0


def test_the_holder_of_a_port_is_looked_up_again_when_it_changes(
    node: Connection, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    assert [one.pid for one in sockets_on(node, port)] == [os.getpid()]
    heir = spawn(SLEEP, pass_fds=[listener.fileno()])
    listener.close()
    assert [one.pid for one in sockets_on(node, port)] == [heir.pid]
    heir.kill()
    wait_for("nobody listens", lambda: sockets_on(node, port) == ())


def test_proc_says_the_same_as_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without inet_diag is asked through /proc/net/tcp."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        clients = [socket.create_connection((address, port)) for address in ("127.0.0.1", "::1")]
        ours = {0, port, *(client.getsockname()[1] for client in clients)}

        def rows() -> list[tcp.Row]:
            """Without what an earlier owner of the same port number left in TIME_WAIT."""
            found = tcp.rows(frozenset([port]))
            return sorted(row for row in found if {row.local_port, row.remote_port} <= ours)

        by_netlink = rows()
        monkeypatch.setattr(tcp, "_GET_TCP", 999)
        assert rows() == by_netlink
        assert len(by_netlink) == 5
        for client in clients:
            client.close()


def test_no_ports_mean_no_sockets(node: Connection) -> None:
    assert node.text("sockets", ports=[]) == ""
    for ports in ([0], [65536], ["80"], [True], 80):
        assert node.probe({"name": "sockets", "args": {"ports": ports}})["sockets"]["code"] == "refused"


# ------------------------------------------------------------------------------------------------------------------ shm


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(f"/dev/shm/psm_sparkdtest{uuid.uuid4().hex[:8]}")
    path.write_bytes(b"x" * 4096)
    yield path
    path.unlink(missing_ok=True)


def seen(node: Connection, path: Path) -> ShmSegment:
    (found,) = [one for one in shm.parse(node.text("shm")) if one.name == path.name]
    return found


def test_shm_counts_who_maps_or_opens_a_segment(
    node: Connection, segment: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    found, status = seen(node, segment), segment.stat()
    assert (found.size_bytes, found.dev, found.inode) == (4096, status.st_dev, status.st_ino)
    assert found.mtime == pytest.approx(status.st_mtime, abs=0.01)
    assert found.holders == 0
    opened = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    mapped = (
        "import sys, mmap, os; file = os.open(sys.argv[1], os.O_RDWR); area = mmap.mmap(file, 4096); os.close(file);"
        "print(flush=True); sys.stdin.read()"
    )
    first, second = (spawn([sys.executable, "-S", "-c", script, str(segment)]) for script in (opened, mapped))
    assert seen(node, segment).holders == 2
    first.kill()
    first.wait()
    assert seen(node, segment).holders == 1
    second.kill()
    second.wait()
    assert seen(node, segment).holders == 0


def test_shm_leaves_other_files_out(node: Connection) -> None:
    path = Path(f"/dev/shm/sparkdtest-{uuid.uuid4()}")
    path.touch()
    try:
        assert path.name not in node.text("shm")
    finally:
        path.unlink()


# --------------------------------------------------------------------------------------------------------------- others


def test_paths(node: Connection, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    expected = {
        ".": "dir",
        "file": "file",
        "link": "file",
        "dangling": "missing",
        "file/x": "missing",
        "loop": "unreadable",
        "fifo": "other",
    }
    asked = {str(tmp_path / name): kind for name, kind in expected.items()}
    assert paths.parse(node.text("paths", paths=list(asked))) == asked


@pytest.mark.parametrize("path", ["relative", "", "/new\nline"])
def test_paths_are_absolute(node: Connection, path: str) -> None:
    assert node.probe({"name": "paths", "args": {"paths": [path]}})["paths"]["code"] == "refused"


@pytest.mark.skipif(os.geteuid() != 0, reason="a raw socket needs root")
def test_ping(node: Connection) -> None:
    asked = ["127.0.0.1", "127.0.0.2", "127.0.0.1", "1.2.3", "cafe", "255.255.255.255"]
    answers = {one.address: one for one in ping.parse(node.text("ping", addresses=asked, timeout_s=2))}
    assert list(answers) == ["127.0.0.1", "127.0.0.2", "1.2.3", "cafe", "255.255.255.255"]
    for address in ("127.0.0.1", "127.0.0.2"):
        assert answers[address].error is None
        assert 0 < (answers[address].ms or 0) < 2000
    assert "illegal IP address" in (answers["1.2.3"].error or "")
    assert answers["cafe"].error
    assert answers["255.255.255.255"].error, "a broadcast is not sent"


@pytest.mark.parametrize("args", [{"addresses": ["spark2.local"]}, {"addresses": ["127.0.0.1"], "timeout_s": 3600}])
def test_ping_asks_no_names_and_no_hours(node: Connection, args: dict[str, object]) -> None:
    assert node.probe({"name": "ping", "args": args})["ping"]["code"] == "refused"


@pytest.fixture
def dockerd(tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """A process called dockerd."""
    program = tmp_path / "dockerd"
    shutil.copy("/bin/dash" if Path("/bin/dash").exists() else "/bin/sh", program)
    return spawn([str(program), "-c", "echo; read line"])


def test_docker_by_pid_file(dockerd: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "docker.pid"
    monkeypatch.setattr(docker_probe, "PID_FILE", str(pid_file))
    monkeypatch.setattr(docker_probe, "UNIT_PIDS", ())
    assert not docker.parse(docker_probe.probe({}, 3)).running
    pid_file.write_text(f"{dockerd.pid}")
    fact = docker.parse(docker_probe.probe({}, 3))
    assert (fact.running, fact.pid, fact.start_ticks) == (True, dockerd.pid, identity(dockerd.pid)[1])
    for stale in ("", "garbage", str(os.getpid()), "4194303"):
        pid_file.write_text(stale)
        assert not docker.parse(docker_probe.probe({}, 3)).running
    pid_file.write_text(f"{dockerd.pid}")
    dockerd.kill()
    wait_for("it is a zombie", lambda: identity(dockerd.pid)[0] == "Z")
    assert not docker.parse(docker_probe.probe({}, 3)).running


def test_docker_by_its_unit(dockerd: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "cgroup.procs"
    group.write_text(f"{os.getpid()}\n{dockerd.pid}\n")
    monkeypatch.setattr(docker_probe, "PID_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(docker_probe, "UNIT_PIDS", (str(tmp_path / "none-too"), str(group)))
    assert docker.parse(docker_probe.probe({}, 3)).pid == dockerd.pid
