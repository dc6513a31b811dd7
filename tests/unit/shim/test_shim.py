"""Ranks as plain processes, each with its shim: how they start, end, log, and what survives whom (real processes)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import anyio
import pytest
from shim_ranks import alive, command, ended, kill, only, rank, says, shim_pid, started, state_of, until

from sparkd.base.errors import DockerError, DockerRefused
from sparkd.model.config import LogLimit
from sparkd.runtimes import shim_log, shim_main, shim_record
from sparkd.runtimes.docker_refusals import reason
from sparkd.runtimes.shim import ShimRuntime

ORPHAN = """
import os, time
heard, said = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("orphan", os.getpid(), flush=True)
        os.write(said, b"!")
        time.sleep(1000)
    os._exit(0)
os.wait()
os.read(heard, 1)
print("up", flush=True)
"""
"""A grandchild in a session of its own whose parent is gone: no signal to a process group reaches it."""

OBEYS = """
import signal, sys, time
def end(number, frame):
    print("asked", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(1000)
"""

REFUSES = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ShimRuntime]:
    made = ShimRuntime("spark1", tmp_path / "ranks")
    yield made
    for container in await made.containers():
        await made.stop(container.id, 0)
        await made.remove(container.id)
    await made.aclose()


async def orphan_of(runtime: ShimRuntime, container_id: str) -> int:
    async def look() -> int:
        lines = [line.text for line in await runtime.logs(container_id, 100, None)]
        return next((int(line.split()[1]) for line in lines if line.startswith("orphan")), 0)

    pid: int = await until("a process that says its number", look)
    return pid


# --------------------------------------------------------------------------------------------------------------- start


async def test_a_running_rank_looks_like_a_container(runtime: ShimRuntime) -> None:
    container = await started(runtime)
    assert (container.name, container.deployment, container.rank, container.generation) == (
        "sparkd-demo-0",
        "demo",
        0,
        7,
    )
    assert (container.owner, container.spec, container.state, container.exit_code) == (
        "owner-1",
        "0" * 64,
        "running",
        None,
    )
    assert alive(container.pid)
    assert datetime.fromisoformat(container.started_at).utcoffset() == timedelta()
    assert not container.finished_at


async def test_the_rank_has_its_own_environment_and_no_other(
    runtime: ShimRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARKD_SOCKET", "/nobody")
    code = "import os; print(sorted(os.environ)); print(os.environ['TOKEN']); print('up', flush=True)"
    spec = rank(code, env={"SPARKD_RANK": "0", "LC_ALL": "C.UTF-8"})
    container_id = await runtime.start(spec, {"TOKEN": "s3cret"})
    await says(runtime, container_id, "['LC_ALL', 'PATH', 'SPARKD_RANK', 'TOKEN']")
    await says(runtime, container_id, "s3cret")
    assert "s3cret" not in str(await runtime.inspect(container_id))
    assert "s3cret" not in (tmp_path / "ranks/sparkd-demo-0/record.json").read_text()


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.abort()", 134),
    ],
)
async def test_exit_codes_are_those_docker_shows(runtime: ShimRuntime, code: str, exit_code: int) -> None:
    await runtime.start(rank(code), {})
    container = await ended(runtime)
    assert (container.state, container.exit_code, container.pid) == ("exited", exit_code, 0)
    assert container.finished_at > container.started_at


async def test_a_missing_program_is_127_and_one_that_cannot_run_126(runtime: ShimRuntime, tmp_path: Path) -> None:
    missing = await runtime.start(command("/no/such/program"), {})
    container = await ended(runtime)
    assert container.exit_code == 127
    assert "/no/such/program" in (await runtime.logs(missing, 10, None))[0].text
    await runtime.remove(missing)
    (tmp_path / "text").write_text("no program")
    await runtime.start(command(str(tmp_path / "text")), {})
    assert (await ended(runtime)).exit_code == 126


async def test_a_name_is_taken_until_its_rank_is_removed(runtime: ShimRuntime) -> None:
    first = await started(runtime)
    for _ in ("while it runs", "after its end"):
        with pytest.raises(DockerRefused) as refused:
            await runtime.start(rank(), {})
        assert reason(refused.value) == "name-taken"
        assert first.id[:12] in refused.value.why
        await runtime.stop(first.id, 0)
    await runtime.remove(first.id)
    assert await runtime.containers() == ()
    assert (await started(runtime)).id != first.id


async def test_of_two_starts_at_once_one_wins(runtime: ShimRuntime) -> None:
    results: list[str] = []

    async def start() -> None:
        try:
            await runtime.start(rank(), {})
            results.append("started")
        except DockerRefused as error:
            results.append(reason(error))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(start)
    assert sorted(results) == ["name-taken"] * 3 + ["started"]
    assert (await only(runtime)).alive


async def test_a_start_that_cannot_work_leaves_nothing(runtime: ShimRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DockerRefused):
        await runtime.start(command("/bin/true"), {})
    assert await runtime.containers() == ()


async def test_a_shim_that_comes_too_late_starts_nothing(runtime: ShimRuntime, tmp_path: Path) -> None:
    """sparkd died between writing the record and starting the shim, and the next one removed what it found."""
    container_id = "a" * 64
    folder = runtime._make(rank(), container_id)
    unborn = await only(runtime)
    assert (unborn.state, unborn.alive) == ("created", False)
    await runtime.remove(container_id)
    assert _shim(folder, container_id).returncode == 1
    other = await started(runtime)
    late = _shim(folder, container_id)
    assert late.returncode == 1
    assert (await only(runtime)).id == other.id


def _shim(folder: Path, container_id: str) -> subprocess.CompletedProcess[bytes]:
    request = b'{"argv": ["/bin/true"], "env": {}, "cwd": "/", "max_bytes": 1000, "files": 1}'
    argv = [sys.executable, "-I", "-S", shim_main.__file__, str(folder), container_id]
    return subprocess.run(argv, input=request, capture_output=True, timeout=10, check=False)


# ---------------------------------------------------------------------------------------------------------------- stop


async def test_stop_asks_and_waits_for_the_end(runtime: ShimRuntime) -> None:
    container = await started(runtime, OBEYS)
    await runtime.stop(container.id, 30)
    stopped = await only(runtime)
    assert (stopped.state, stopped.exit_code) == ("exited", 3)
    assert "asked" in [line.text for line in await runtime.logs(container.id, 10, None)]
    assert not alive(container.pid)
    await runtime.stop(container.id, 30)


async def test_who_does_not_obey_is_killed_after_the_grace(runtime: ShimRuntime) -> None:
    container = await started(runtime, REFUSES)
    await runtime.stop(container.id, 0.2)
    assert (await only(runtime)).exit_code == 137


async def test_a_later_stop_may_shorten_the_grace(runtime: ShimRuntime) -> None:
    container = await started(runtime, REFUSES)
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.stop, container.id, 1000)
        await until("the first stop is asked", (runtime._folder / "sparkd-demo-0/grace").exists)
        await runtime.stop(container.id, 0.1)
    assert (await only(runtime)).exit_code == 137


async def test_a_stopped_process_can_be_stopped(runtime: ShimRuntime) -> None:
    container = await started(runtime)
    os.kill(container.pid, signal.SIGSTOP)
    await until("it is stopped", lambda: state_of(container.pid) == "T")
    await runtime.stop(container.id, 0.1)
    assert (await only(runtime)).exit_code == 137


async def test_orphans_end_with_the_rank(runtime: ShimRuntime) -> None:
    container = await started(runtime, ORPHAN + "time.sleep(1000)")
    orphan = await orphan_of(runtime, container.id)
    assert alive(orphan)
    await runtime.stop(container.id, 0.1)
    assert not alive(orphan)


async def test_orphans_end_when_the_rank_ends_by_itself(runtime: ShimRuntime) -> None:
    container_id = await runtime.start(rank(ORPHAN + "raise SystemExit(5)"), {})
    container = await ended(runtime)
    assert container.exit_code == 5
    assert not alive(await orphan_of(runtime, container_id))


async def test_unknown_ids_are_gone_already(runtime: ShimRuntime) -> None:
    await runtime.stop("f" * 64, 1)
    await runtime.remove("f" * 64)
    with pytest.raises(DockerRefused):
        await runtime.logs("f" * 64, 1, None)


async def test_a_running_rank_is_not_removed(runtime: ShimRuntime) -> None:
    container = await started(runtime)
    with pytest.raises(DockerRefused, match="stop it"):
        await runtime.remove(container.id)
    assert (await only(runtime)).alive


# -------------------------------------------------------------------------------------------------------- who survives


async def test_ranks_outlive_whoever_started_them(runtime: ShimRuntime, tmp_path: Path) -> None:
    """The starter is killed with its whole process group; a new sparkd finds the rank by its identity."""
    code = (
        "import anyio, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from shim_ranks import rank\n"
        "from sparkd.runtimes.shim import ShimRuntime\n"
        f"print(anyio.run(ShimRuntime('spark1', Path({str(tmp_path / 'ranks')!r})).start, rank(), {{}}), flush=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as starter:
        assert starter.stdout is not None
        container_id = starter.stdout.readline().decode().strip()
        os.killpg(starter.pid, signal.SIGKILL)
    container = await only(runtime)
    assert (container.id, container.state) == (container_id, "running")
    assert alive(container.pid)
    await runtime.stop(container.id, 0.1)
    assert (await only(runtime)).exit_code == 143


async def test_a_killed_shim_takes_its_rank_along_and_the_record_says_what_is_known(
    runtime: ShimRuntime, tmp_path: Path
) -> None:
    container = await started(runtime)
    kill(shim_pid(tmp_path / "ranks"))
    lost = await ended(runtime)
    assert (lost.state, lost.exit_code, lost.error) == ("exited", shim_record.UNKNOWN_EXIT, shim_record.SHIM_LOST)
    assert not alive(container.pid)
    await runtime.remove(container.id)


CHILD = """
import os, time
if os.fork() == 0:
    print("orphan", os.getpid(), flush=True)
    time.sleep(1000)
print("up", flush=True)
time.sleep(1000)
"""


async def test_what_outlives_a_killed_shim_still_counts_as_running(runtime: ShimRuntime, tmp_path: Path) -> None:
    container = await started(runtime, CHILD)
    child = await orphan_of(runtime, container.id)
    kill(shim_pid(tmp_path / "ranks"))
    await until("the first process went with its shim", lambda: not alive(container.pid))
    left = await only(runtime)
    assert (left.state, left.exit_code, left.error) == ("running", None, shim_record.SHIM_LOST)
    await runtime.stop(container.id, 10)
    assert not alive(child)
    assert (await only(runtime)).exit_code == shim_record.UNKNOWN_EXIT


async def test_a_reboot_ends_everything(runtime: ShimRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    container = await started(runtime)
    with monkeypatch.context() as patched:
        patched.setattr(shim_record, "this_boot", lambda: "another:1")
        rebooted = await only(runtime)
        assert (rebooted.state, rebooted.error) == ("exited", shim_record.REBOOTED)
        await runtime.stop(container.id, 1)
    assert (await only(runtime)).alive, "nothing is signalled by the numbers of another boot"


async def test_a_process_with_the_same_number_is_not_the_rank(runtime: ShimRuntime, tmp_path: Path) -> None:
    await started(runtime)
    record = shim_record.read(tmp_path / "ranks/sparkd-demo-0")
    assert record.shim is not None
    assert record.rank is not None
    stranger = replace(record.shim, start_ticks=record.shim.start_ticks + 1)
    other = replace(record, shim=stranger, rank=replace(record.rank, start_ticks=record.rank.start_ticks + 1))
    assert not other.kept
    assert other.survivors() == ()
    with stranger.held() as descriptor:
        assert descriptor is None


async def test_an_unreadable_record_is_an_error_and_not_an_empty_node(runtime: ShimRuntime, tmp_path: Path) -> None:
    await started(runtime)
    record = tmp_path / "ranks/sparkd-demo-0/record.json"
    before = record.read_text()
    record.write_text(before[:-20])
    with pytest.raises(DockerError):
        await runtime.containers()
    record.write_text(before)


async def test_the_end_of_a_rank_wakes_at_once(runtime: ShimRuntime) -> None:
    woken = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.events, woken.set)
        container = await started(runtime)
        kill(container.pid)
        with anyio.fail_after(5):
            await woken.wait()
        assert (await only(runtime)).exit_code == 137
        group.cancel_scope.cancel()


# ----------------------------------------------------------------------------------------------------------------- logs


async def test_lines_have_time_and_stream(runtime: ShimRuntime) -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); print('no end', end='')"
    container_id = await runtime.start(rank(code), {})
    await ended(runtime)
    lines = await runtime.logs(container_id, 10, None)
    assert sorted((line.stream, line.text) for line in lines) == [
        ("stderr", "err"),
        ("stdout", "no end"),
        ("stdout", "out"),
    ]
    assert [line.text for line in await runtime.logs(container_id, 1, None)] == [lines[-1].text]
    assert await runtime.logs(container_id, 10, lines[-1].at + 1) == ()


async def test_the_log_is_bounded(runtime: ShimRuntime, tmp_path: Path) -> None:
    limit = LogLimit(max_size="20k", max_file=2)
    code = (
        "for number in range(20000): print('line', number)\nprint('up', flush=True)\n" + "import time; time.sleep(1000)"
    )
    container = await started(runtime, code, log=limit)
    files = sorted((tmp_path / "ranks/sparkd-demo-0").glob("log*"))
    assert [path.name for path in files] == ["log", "log.1"]
    assert all(path.stat().st_size <= 20 * 1024 for path in files)
    texts = [line.text for line in await runtime.logs(container.id, 200, None)]
    assert texts[-3:] == ["line 19998", "line 19999", "up"]
    assert len(texts) == 200


async def test_a_log_that_is_being_rotated_can_be_read_at_any_moment(runtime: ShimRuntime) -> None:
    code = "n = 0\nwhile True:\n print(n, flush=True)\n n += 1"
    container_id = await runtime.start(rank(code, log=LogLimit(max_size="1k", max_file=3)), {})
    for _ in range(500):
        numbers = [int(line.text) for line in await runtime.logs(container_id, 100, None)]
        assert numbers == sorted(set(numbers)), "no line twice"
    await runtime.stop(container_id, 0.0)


def test_a_log_that_is_rotated_twice_while_one_looks_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a busy machine: what was read first had become the oldest."""
    (tmp_path / "log.1").write_text("1.0 stdout a\n")
    (tmp_path / "log").write_text("2.0 stdout b\n")
    read = shim_log._end_of

    def rotated(file: BinaryIO, limit: int) -> bytes:
        found = read(file, limit)
        if not (tmp_path / "log.3").exists():
            for old, new in (("log.1", "log.3"), ("log", "log.2")):
                (tmp_path / old).rename(tmp_path / new)
            (tmp_path / "log.1").write_text("3.0 stdout c\n")
            (tmp_path / "log").write_text("4.0 stdout d\n")
        return found

    monkeypatch.setattr(shim_log, "_end_of", rotated)
    assert [line.text for line in shim_log.last(tmp_path, 10, None)] == ["a", "b", "c"]
    assert [line.text for line in shim_log.last(tmp_path, 2, None)] == ["c", "d"]


async def test_a_pipe_in_place_of_a_log_is_not_waited_for(runtime: ShimRuntime, tmp_path: Path) -> None:
    container_id = await runtime.start(rank("print('up')"), {})
    await ended(runtime)
    log = tmp_path / "ranks/sparkd-demo-0/log"
    log.unlink()
    os.mkfifo(log)
    with anyio.fail_after(10), pytest.raises(DockerError, match="not seekable"):
        await runtime.logs(container_id, 10, None)


async def test_one_file_is_a_bound_too(runtime: ShimRuntime, tmp_path: Path) -> None:
    code = "for number in range(5000): print('line', number)"
    await runtime.start(rank(code, log=LogLimit(max_size="10k", max_file=1)), {})
    await ended(runtime)
    files = list((tmp_path / "ranks/sparkd-demo-0").glob("log*"))
    assert [path.name for path in files] == ["log"]
    assert files[0].stat().st_size <= 10 * 1024


async def test_a_line_without_end_is_cut(runtime: ShimRuntime) -> None:
    container_id = await runtime.start(rank("print('x' * 200000)"), {})
    await ended(runtime)
    lines = await runtime.logs(container_id, 10, None)
    assert sum(len(line.text) for line in lines) == 200000
    assert max(len(line.text) for line in lines) <= shim_main.MAX_LINE_BYTES


async def test_follow_shows_each_line_once_through_rotations_and_ends_with_the_rank(runtime: ShimRuntime) -> None:
    code = "import sys, time\nprint('up', flush=True)\nfor n in range(300): print(n, flush=True); time.sleep(0.002)"
    container_id = await runtime.start(rank(code, log=LogLimit(max_size="2k", max_file=3)), {})
    with anyio.fail_after(15):
        async with aclosing(runtime.follow(container_id, 10000)) as lines:
            seen = [line.text async for line in lines]
    numbers = [int(text) for text in seen if text != "up"]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 299
