"""The journal on real bad disks: full, read only, and one that does not answer at all. Needs root to mount them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from sparkd.journal import Event, Journal, JournalError
from sparkd.model.decision import Intent, Phase, State

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root"),
]


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=60)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        run("umount", "--lazy", str(folder))


@pytest.fixture
def real_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 16 MiB on a loop device: it can be frozen, which is what a hung disk looks like to those who write."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * 1024 * 1024)
    if shutil.which("mkfs.ext4") is None or shutil.which("fsfreeze") is None:
        pytest.skip("e2fsprogs and util-linux are not there")
    run("mkfs.ext4", "-q", str(image))
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=False, timeout=60).returncode:
        pytest.skip("no loop device here")
    try:
        yield folder
    finally:
        run("umount", "--lazy", str(folder))


def fill_up(folder: Path) -> Path:
    path = folder / "fill"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(fd, b"x" * 1024):
            pass
    except OSError:
        pass  # full, which is what was wanted
    finally:
        os.close(fd)
    return path


async def until(true: Callable[[], bool], what: str, deadline_s: float = 20.0) -> None:
    with anyio.move_on_after(deadline_s):
        while not true():
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"never came true within {deadline_s} s: {what}")


def event(number: int) -> Event:
    return Event(at=1.8e9, kind="started", deployment="ds4", generation=number, sentence="x" * 400)


async def test_f42_a_full_disk_costs_verbs_but_neither_states_nor_history(small_disk: Path) -> None:
    path = small_disk
    one = Journal(path, retry_s=0.1)
    await one.open()
    owner = await one.owner()
    await one.save_intent("ds4", Intent(wanted="up", restart=1))
    filling = fill_up(small_disk)
    for number in range(300):
        await one.record(event(number))
        await one.save_state("ds4", State(phase=Phase.SERVE, generation=number))
    assert one.read_only
    assert "full" in one.trouble
    with pytest.raises(JournalError, match="full"):
        await one.save_intent("qwen", Intent(wanted="up", message="y" * 8000))
    assert len(await one.history(limit=1000)) == 300

    filling.unlink()
    await until(lambda: not one.read_only, "the journal notices that there is room again")
    await one.save_intent("ds4", Intent(wanted="up", restart=2))
    await one.aclose()

    two = Journal(path)
    await two.open()
    assert [found.generation for found in await two.history(limit=1000)] == list(range(300))
    assert (await two.load_states())["ds4"].generation == 299
    assert await two.load_intents() == {"ds4": Intent(wanted="up", restart=2)}
    assert await two.owner() == owner
    await two.aclose()


async def test_a_start_on_a_full_disk_reads_all_that_was_known(small_disk: Path) -> None:
    path = small_disk
    one = Journal(path)
    await one.open()
    owner = await one.owner()
    await one.save_intent("ds4", Intent(wanted="stopped", by="milo"))
    await one.save_state("ds4", State(generation=7))
    await one.aclose()
    filling = fill_up(small_disk)

    two = Journal(path, retry_s=0.1)
    await two.open()
    assert (await two.load_intents())["ds4"] == Intent(wanted="stopped", by="milo")
    assert (await two.load_states())["ds4"].generation == 7
    assert await two.owner() == owner
    await two.save_state("ds4", State(generation=8))
    assert two.read_only
    filling.unlink()
    await until(lambda: not two.read_only, "the journal notices that there is room again")
    await two.aclose()


async def test_a_read_only_disk_is_read_and_named(small_disk: Path) -> None:
    """As after an unclean end: the last writes are only in SQLite's log beside the file."""
    path = small_disk
    one = Journal(path)
    await one.open()
    owner = await one.owner()
    await one.save_intent("ds4", Intent(wanted="stopped"))
    await one.record(event(1))
    copies = {found.name: found.read_bytes() for found in small_disk.iterdir()}
    await one.aclose()
    for name, content in copies.items():
        (small_disk / name).write_bytes(content)
    (small_disk / "journal.db-shm").unlink(missing_ok=True)
    run("mount", "-o", "remount,ro", str(small_disk))

    two = Journal(path, retry_s=0.1)
    await two.open()
    assert (await two.load_intents())["ds4"].wanted == "stopped"
    assert await two.owner() == owner
    assert two.read_only
    added = await two.record(event(2))
    assert [found.generation for found in await two.history()] == [1, 2]
    with pytest.raises(JournalError):
        await two.save_intent("ds4", Intent(wanted="up"))

    run("mount", "-o", "remount,rw", str(small_disk))
    await until(lambda: not two.read_only, "the journal notices that it can write again")
    await two.aclose()
    three = Journal(path)
    await three.open()
    assert (await three.history())[-1] == added
    assert (await three.load_intents())["ds4"].wanted == "stopped"
    await three.aclose()


async def test_a_first_start_without_a_disk_has_no_owner(small_disk: Path) -> None:
    """An owner id that is forgotten would lock the next sparkd out of its own nodes."""
    run("mount", "-o", "remount,ro", str(small_disk))
    one = Journal(small_disk)
    await one.open()
    assert one.read_only
    with pytest.raises(JournalError, match="owner"):
        await one.owner()
    await one.aclose()


async def test_a_hung_disk_holds_up_nobody(real_disk: Path) -> None:
    deadline_s = 0.4
    path = real_disk
    one = Journal(path, deadline_s=deadline_s, retry_s=0.1)
    await one.open()
    owner = await one.owner()
    await one.save_intent("ds4", Intent(wanted="up", restart=1))
    longest, ticks = 0.0, 0

    async def tick() -> None:
        """The loop itself: how long was it ever kept from running?"""
        nonlocal longest, ticks
        while True:
            before = time.monotonic()
            await anyio.sleep(0.01)
            longest, ticks = max(longest, time.monotonic() - before), ticks + 1

    run("fsfreeze", "--freeze", str(real_disk))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            began = time.monotonic()
            for number in range(20):
                await one.save_state("ds4", State(generation=number))
                await one.record(event(number))
            assert time.monotonic() - began < 3 * deadline_s  # waited for once, not twenty times
            assert one.read_only
            with pytest.raises(JournalError):
                await one.save_intent("ds4", Intent(wanted="stopped"))
            assert len(await one.history()) == 20
            group.cancel_scope.cancel()
    finally:
        run("fsfreeze", "--unfreeze", str(real_disk))
    assert ticks > 20
    assert longest < 0.5
    await until(lambda: not one.read_only, "the journal notices that the disk answers again")
    await one.aclose()

    two = Journal(path)
    await two.open()
    assert await two.load_intents() == {"ds4": Intent(wanted="up", restart=1)}
    assert (await two.load_states())["ds4"].generation == 19
    assert len(await two.history()) == 20
    assert await two.owner() == owner
    await two.aclose()
