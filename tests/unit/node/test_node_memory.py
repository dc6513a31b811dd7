"""Who has the memory, what looks like an engine, and what may be emptied: on real processes and folders."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkd.facts import caches, engines, holders, ipc, memory, pressure
from sparkd.facts.holders import unaccounted
from sparkd.model.machine import EngineProcess
from sparkd.node import boot_memory, cgroups, emptying, procfs
from sparkd.node.probes import ipc as ipc_probe
from sparkd.node.recognised import is_engine
from sparkd.node.refusal import Refusal
from sparkd.node.verbs import freeing

from .service import OWNER, Connection, identity

C = "c" * 64
TITLED = """\
import os, signal, socket, sys
if not os.fork():
    listener = socket.create_server(("127.0.0.1", 0))
    # As setproctitle does: over the arguments and the whole environment.
    start, end = [int(word) for word in open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45:49:3]]
    with open("/proc/self/mem", "r+b", buffering=0) as mine:
        mine.seek(start)
        mine.write(b"VLLM::Worker_TP1".ljust(end - start, b"\\0"))
    print(os.getpid(), listener.getsockname()[1], flush=True)
signal.pause()
"""


@pytest.fixture
def worker() -> Iterator[Callable[..., tuple[int, int]]]:
    """Starts a process with the given environment whose child calls itself VLLM::Worker_TP1 -> (pid, port) of that."""
    started: list[tuple[subprocess.Popen[str], int]] = []

    def start(**environment: str) -> tuple[int, int]:
        env = {**os.environ, **environment}
        process = subprocess.Popen([sys.executable, "-c", TITLED], env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        pid, port = map(int, process.stdout.readline().split())
        started.append((process, pid))
        return pid, port

    yield start
    for process, pid in started:
        os.kill(pid, 9)
        process.kill()
        process.communicate()


def found(node: Connection, pid: int) -> EngineProcess:
    return next(one for one in engines.parse(node.text("engines")) if one.pid == pid)


def test_a_worker_is_known_by_its_parent_when_its_own_environment_is_gone(node: Connection, worker: Any) -> None:
    pid, port = worker(SPARKD_OWNER=OWNER, SPARKD_DEPLOYMENT="demo", SPARKD_GENERATION="7")
    assert b"SPARKD_OWNER" not in Path(f"/proc/{pid}/environ").read_bytes()
    one = found(node, pid)
    assert (one.title, one.ports, one.mark) == ("VLLM::Worker_TP1", (port,), (OWNER, "demo", 7))
    assert (one.start_ticks, one.ppid) == (identity(pid)[1], one.ppid)
    assert one.age_s < 60
    assert one.rss_bytes > 1 << 20


def test_the_same_title_without_a_mark_is_nobodys(node: Connection, worker: Any) -> None:
    pid, _ = worker()
    assert found(node, pid).mark is None


ARGVS: list[tuple[str, bool]] = [
    ("VLLM::EngineCore", True),
    ("VLLM::Worker_TP0_EP0", True),
    ("ray::RayWorkerWrapper.execute_method", True),
    ("sglang::scheduler_TP0", True),
    ("/usr/lib/ray/raylet --num-cpus 20", True),
    ("/opt/llama/rpc-server -p 50052", True),
    ("llama-server -m x.gguf", True),
    ("vllm serve /models/x", True),
    ("/opt/venv/bin/python3.12 /opt/venv/bin/vllm serve /models/x", True),
    ("python3 -m vllm.entrypoints.openai.api_server", True),
    ("python3 -m sglang.launch_server --tp 2", True),
    ("docker exec vllm_ds4 vllm serve /models/x", False),
    ("bash -c vllm_serve", False),
    ("grep VLLM::Worker", False),
    ("vim vllm", False),
    ("vllm bench serve", False),
    ("python3", False),
    ("", False),
]


@pytest.mark.parametrize(("argv", "engine"), ARGVS)
def test_what_looks_like_an_engine(argv: str, engine: bool) -> None:
    assert is_engine(argv.split(" ")) is engine


GROUPS: list[tuple[str, str]] = [
    (f"0::/system.slice/docker-{C}.scope\n", C),
    (f"12:memory:/docker/{C}\n1:name=systemd:/docker/{C}\n", C),
    (f"0::/docker/{'a' * 64}/docker/{C}\n", C),
    (f"0::/docker/{'a' * 64}/system.slice/vllm.service\n", "vllm.service"),
    ("12:memory:/\n1:name=systemd:/system.slice/vllm.service\n", "vllm.service"),
    ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
    ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "user@1000.service/vllm.service"),
    ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/tmux-1.scope", "tmux-1.scope"),
    ("0::/user.slice/user-1000.slice/user@1000.service/init.scope", "init.scope"),
    ("0::/user.slice/user-1000.slice/user@1000.service", "user@1000.service"),
    (f"0::/machine.slice/libpod-{C}.scope/container\n", C),
    ("0::/\n", "-"),
    ("", "-"),
]


@pytest.mark.parametrize(("text", "owner"), GROUPS)
def test_the_innermost_control_group_owns(text: str, owner: str) -> None:
    assert cgroups.owner_of(text) == owner


def test_holders_name_a_big_process(node: Connection) -> None:
    ballast = [
        sys.executable,
        "-c",
        "import signal; x = bytearray(b'x' * (300 << 20)); print(flush=True); signal.pause()",
    ]
    with subprocess.Popen(ballast, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        seen = holders.parse(node.text("holders"))
        one = next(one for one in seen.processes if one.pid == process.pid)
        process.kill()
    assert 300 << 20 <= one.rss_bytes < 400 << 20
    assert one.start_ticks > 0
    assert seen.unaccounted < memory.parse(node.text("meminfo")).total


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_holders_name_a_tmpfs(node: Connection, tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(tmp_path), b"tmpfs", 0, b"size=64m"):
        pytest.skip("this machine allows no mounts")
    try:
        (tmp_path / "file").write_bytes(b"x" * (32 << 20))
        seen = {one.path: one.used_bytes for one in holders.parse(node.text("holders")).tmpfs}
    finally:
        libc.umount2(bytes(tmp_path), 2)
    assert seen[str(tmp_path)] == 32 << 20


def test_the_figures_right_after_a_boot_are_kept_for_that_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    ticks = int(uptime_s * os.sysconf("SC_CLK_TCK"))
    young, old = procfs.BootIdentity("b", ticks), procfs.BootIdentity("b", ticks - 700 * os.sysconf("SC_CLK_TCK"))
    monkeypatch.setattr(boot_memory, "_RECORDED", {})
    boot_memory.record(str(tmp_path), old)
    assert boot_memory.recorded() == {}, "nobody looked in time"
    boot_memory.record(str(tmp_path), young)
    first = dict(boot_memory.recorded())
    assert first["MemTotal"] == boot_memory.figures()["MemTotal"]
    boot_memory.record(str(tmp_path), procfs.BootIdentity("b", ticks - 1))
    boot_memory.record(str(tmp_path), young)
    assert boot_memory.recorded()["MemTotal"] == first["MemTotal"]
    boot_memory.record(str(tmp_path), old)
    assert boot_memory.recorded() == {}, "that was another boot"


def test_compressed_swap_is_no_leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in /proc/meminfo says where that memory is: it would be taken for the driver's, that only a reboot brings back."""
    for name, text in (("zram0", "9 8 4096 0 5000 1 0 0 0\n"), ("zram1", "9 8 8192 0 9000 1 0 0 0\n"), ("zram2", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mm_stat").write_text(text)
    monkeypatch.setattr(boot_memory, "ZRAM", f"{tmp_path}/zram*/mm_stat")
    assert boot_memory.figures()["Zram"] == 4096 + 8192
    known = dict.fromkeys(("MemFree", "Buffers", "Cached", "AnonPages", "Slab"), 0)
    assert unaccounted({"MemTotal": 20000, **known, "Zram": 12288}) == 20000 - 12288


def test_pressure_is_this_machines(node: Connection) -> None:
    seen = pressure.parse(node.text("pressure"))
    assert seen.knobs["swappiness"] == int(Path("/proc/sys/vm/swappiness").read_text())
    assert (seen.some_60 is not None) is Path("/proc/pressure/memory").exists()


def test_a_killer_is_found_by_its_name(node: Connection, tmp_path: Path) -> None:
    script = tmp_path / "earlyoom"
    script.write_text("#!/bin/sh\necho\nwhile sleep 1; do :; done\n")
    script.chmod(0o755)
    with subprocess.Popen([str(script), "-m", "4"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        seen = pressure.parse(node.text("pressure"))
        process.kill()
    one = next(one for one in seen.killers if one.pid == process.pid)
    assert one.name == "earlyoom"
    assert one.argv[-2:] == ("-m", "4")


@pytest.mark.parametrize(
    ("texts", "removes"),
    [
        ([], True),
        (["[Login]\n#RemoveIPC=no\n"], True),
        (["[Login]\nRemoveIPC=no\n"], False),
        (["[Login]\nRemoveIPC=no\n", "[Login]\nRemoveIPC = yes\n"], True),
        (["[Login]\nRemoveIPC=no\n", "[Login]\nRemoveIPC=\n"], True),
    ],
)
def test_logind_removes_shared_memory_unless_it_is_told_not_to(texts: list[str], removes: bool) -> None:
    assert ipc_probe.removes(texts) is removes


def test_shared_memory_as_a_whole(node: Connection) -> None:
    usage = os.statvfs("/dev/shm")
    seen = ipc.parse(node.text("ipc", users=["root", "0", "no-such-user"]))
    assert seen.size_bytes == usage.f_blocks * usage.f_frsize
    assert seen.users["root"].uid == seen.users["0"].uid == 0
    assert seen.users["no-such-user"].uid is None


# ------------------------------------------------------------------------------------------------------------- caches


def filled(folder: Path) -> Path:
    (folder / "torch_compile_cache/ab").mkdir(parents=True)
    (folder / "torch_compile_cache/ab/graph.so").write_bytes(b"x" * 100_000)
    (folder / "elsewhere").symlink_to(folder.parent / "kept")
    (folder.parent / "kept").mkdir()
    (folder.parent / "kept/model").write_bytes(b"x")
    return folder


def test_caches_are_measured_and_emptied(node: Connection, tmp_path: Path) -> None:
    cache, missing = filled(tmp_path / "vllm"), str(tmp_path / "none")
    seen = {one.path: one for one in caches.parse(node.text("caches", paths=[str(cache), missing]))}
    assert seen[str(cache)].bytes >= 100_000
    assert (seen[str(cache)].files, seen[missing].files) == (2, 0)
    freed = node.verb("empty_caches", paths=[str(cache), missing])["result"]
    assert freed[str(cache)] >= 100_000
    assert freed[missing] == 0
    assert list(cache.iterdir()) == []
    assert (tmp_path / "kept/model").exists(), "what a link leads to stays"


def test_a_link_put_into_the_path_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    """Whoever owns a folder above a cache can do that between the look and the emptying, which is root's."""
    cache = filled(tmp_path / "milo/vllm")
    other = filled(tmp_path / "other/vllm")
    looked_at = cache.stat()
    (tmp_path / "milo").rename(tmp_path / "milo.old")
    (tmp_path / "milo").symlink_to(tmp_path / "other")
    for path in (cache, other):  # through the link; and a folder that is not the one that was looked at
        said = emptying_of(path, looked_at)
        assert said.returncode == 1
        assert said.stderr
    assert (other / "torch_compile_cache/ab/graph.so").exists()
    assert emptying_of(tmp_path / "milo.old/vllm", looked_at).returncode == 0
    assert list((tmp_path / "milo.old/vllm").iterdir()) == []


def emptying_of(path: Path, looked_at: os.stat_result) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", emptying.__file__, str(looked_at.st_dev), str(looked_at.st_ino), str(path)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def test_what_is_no_cache_is_refused(node: Connection, tmp_path: Path) -> None:
    cache = filled(tmp_path / "vllm")
    weights = tmp_path / "models"
    weights.mkdir()
    (weights / "model-00001.safetensors").write_bytes(b"x")
    link = tmp_path / "link"
    link.symlink_to(cache)
    for bad in (str(weights), str(link), str(cache / "torch_compile_cache/ab/graph.so"), "/usr/lib/python3", "/home"):
        answer = node.verb("empty_caches", paths=[str(cache), bad])
        assert (answer["ok"], answer["code"]) == (False, "refused"), bad
    assert (cache / "torch_compile_cache/ab/graph.so").exists(), "nothing goes when one of them is refused"


@pytest.mark.parametrize(
    "path", ["/", "/home", "/etc/x", "/usr", "/lib64/a", "/var/lib/docker/volumes", "/proc/1", "/data"]
)
def test_folders_of_the_system_hold_no_caches(path: str) -> None:
    assert freeing.SYSTEM.fullmatch(path)


@pytest.mark.parametrize("path", ["/home/milo/.cache/vllm", "/data/cache", "/var/lib/tiny/vllm", "/srv/libs/x"])
def test_other_folders_may(path: str) -> None:
    assert not freeing.SYSTEM.fullmatch(path)


def test_swap_that_would_not_fit_is_left_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeing, "_swaps", lambda: [freeing._Swap("/swap.img", True, 8 << 30)])
    monkeypatch.setattr(boot_memory, "figures", lambda: {"MemAvailable": 8 << 30})
    monkeypatch.setattr(freeing, "_run", lambda *_: pytest.fail("swap was taken back into memory that is not there"))
    with pytest.raises(Refusal, match="swapped out"):
        freeing.swapoff(None, OWNER, {}, 5.0)  # type: ignore[arg-type]  # it looks at nothing of the node's


def test_a_path_becomes_one_word_of_a_units_setting() -> None:
    assert freeing._escaped('/data/a "b" 100%') == '"/data/a \\"b\\" 100%%"'
