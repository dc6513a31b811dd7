"""Known-good records on disk: what is written is read again, and what is on disk is what counts."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from sparkd import drift
from sparkd.background.known_good_store import KEPT, MOST_READ, NotRead, Record, Store
from sparkd.drift.form import RankForm, Side
from sparkd.drift.values import NotJson
from sparkd.fleet import load_config
from sparkd.importers import child

FORM = RankForm(
    rank=0,
    node="spark1",
    program=("vllm", "serve"),
    model="/models/x",
    flags={
        "max-model-len": 200000,
        "gpu-memory-utilization": 0.9,
        "enforce-eager": True,
        "compilation-config": NotJson("{cudagraph_mode:FULL}", True),
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 2},
        "served-model-name": ["x"],
    },
    env={"OMP_NUM_THREADS": "8", "HF_TOKEN": "<redacted>", "EMPTY": ""},
    image="vllm:1",
    image_id="sha256:" + "1" * 64,
    container={"ipc": "host", "ulimits": {"memlock": -1}},
    mounts={"/models": "/home/models (read only)"},
    unit={"vllm.service Restart": "always"},
    files={"model model-1.safetensors": "100 bytes", "build vllm_prs": "41834", "marker /x `a`": None},
    host={"kernel": "6.14.0-1010", "fabric MTU": 9000, "swap": "not used"},
)


def record(generation: int, **changes: object) -> Record:
    side = Side(label="live", kind="live", ranks=(FORM, replace(FORM, rank=1, node="spark2")))
    base = Record(deployment="demo", generation=generation, recorded="2026-11-28T08:00:00Z", side=side)
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's work without the child, whose start takes a second of the processor; other tests here have both."""

    async def answer(module: str, files: Sequence[str], _: str) -> bytearray:
        assert module == child.__name__
        with redirect_stdout(io.StringIO()) as said:
            child.main([*files])
        return bytearray(said.getvalue(), "ascii")

    monkeypatch.setattr(load_config, "_answer", answer)


async def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    measured = {"decode_tokens_per_second": {"warm": 44.5, "cold": 32.0}, "acceptance": [0.89, 0.63]}
    written = record(12, measured=measured, note="after the update: 44 tok/s", pinned=True)
    await Store(tmp_path).write(written, "name: demo\n")
    (found,) = await Store(tmp_path).records("demo")  # another one, as after a restart
    assert drift.compare(written.side, found.side) == drift.compare(found.side, written.side)
    assert [one for one in drift.compare(written.side, found.side) if one.name != "--compilation-config"] == []
    assert found.side.ranks[0].flags is not None
    assert found.side.ranks[0].flags["compilation-config"] == NotJson("{cudagraph_mode:FULL}", True)
    assert (found.generation, found.recorded, found.note, found.pinned, found.measured) == (
        12, "2026-11-28T08:00:00Z", "after the update: 44 tok/s", True, measured,
    )  # fmt: skip
    assert (found.label, await Store(tmp_path).source(found)) == ("known-good 12", "name: demo\n")


async def test_a_file_that_a_person_put_back_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = await store.write(record(1))
    before = path.read_text()
    await store.write(record(1, note="other"))
    assert [one.note for one in await store.records("demo")] == ["other"]
    path.write_text(before + "\n")
    assert [one.note for one in await store.records("demo")] == [None]
    path.unlink()
    assert await store.records("demo") == ()


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("text", ["", "- a list\n", "schema: 1\nkind: known-good\nranks: 3\n", "{[", "\0"])
async def test_a_bad_file_costs_itself_alone(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    path = await store.write(record(3))
    path.with_name("4.yaml").write_text(text)
    path.with_name("readme.yaml").write_text("for people")
    assert [one.generation for one in await store.records("demo")] == [3]


@pytest.mark.usefixtures("read_here")
async def test_the_newest_is_the_reference_until_a_person_blesses_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert await store.reference("demo") is None
    for generation in (2, 10):
        await store.write(record(generation))
    assert (await store.reference("demo") or record(0)).generation == 10
    await store.write(record(2, pinned=True))
    await store.write(record(11))
    assert (await store.reference("demo") or record(0)).generation == 2
    await store.write(record(10, pinned=True))
    assert [one.generation for one in await store.records("demo") if one.pinned] == [10]


@pytest.mark.usefixtures("read_here")
async def test_old_records_go_and_blessed_ones_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.write(record(1, pinned=True), "name: demo\n")
    for generation in range(2, KEPT + 4):
        await store.write(record(generation), "name: demo\n")
    kept = [one.generation for one in await store.records("demo")]
    assert kept == [1, *range(4, KEPT + 4)]
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert files == {name for one in kept for name in (f"{one}.yaml", f"{one}.deployment.yaml")}


async def test_a_record_that_is_empty_of_secrets_is_so_on_disk(tmp_path: Path) -> None:
    form = replace(FORM, env={"HF_TOKEN": "hf_planted_0123", "URL": "http://hf_planted_0123@x"})
    path = await Store(tmp_path).write(record(1, side=Side(label="live", kind="live", ranks=(form,))))
    assert "hf_planted_0123" not in path.read_text()
    assert "max-model-len: 200000" in path.read_text()


ODD = {
    "invisible": "a\xa0b\x7f\x85\x9f\u200b\u2028\u202e\ufeff\xad\U000e0001",
    "controls": "\x1b[31m\n\ttext\r",
    "long": "word" * 30_000,  # an ordinary letter for a pattern that looks for names in it
}


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
async def test_whatever_a_process_is_given_can_be_read_again(tmp_path: Path, text: str) -> None:
    form = replace(
        FORM,
        env={"A": text, text[:2000]: "1", "<<": "x"},
        flags={"x": text, "y": {text[:2000]: [text]}},
        unit={"x.service ExecStart 1": "/usr/bin/bash -c 'cd /a/../b'  # x"},
        files={"program": "/opt/venv/../venv/bin/vllm", "marker /x k": {"a": ["/b/"]}},
        container={"entrypoint": ["/bin//sh", "-c"]},
    )
    written = record(1, note=text, side=Side(label="live", kind="live", ranks=(form,)))
    await Store(tmp_path).write(written)
    (found,) = await Store(tmp_path).records("demo")
    assert found.side.ranks == (form,), "what is recorded of what runs is no drift from what runs"
    assert found.note == text


@pytest.mark.parametrize("value", ["\0", "\ud800", "x" * (1 << 20)])
async def test_what_could_not_be_read_again_does_not_take_the_place_of_what_can(tmp_path: Path, value: str) -> None:
    store = Store(tmp_path)
    await store.write(record(1, note="good"))
    bad = Side(label="live", kind="live", ranks=(replace(FORM, files={"marker /x k": value}),))
    with pytest.raises(OSError, match="could not be read again"):
        await store.write(record(1, side=bad))
    assert [one.note for one in await store.records("demo")] == ["good"]
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["1.yaml"]


async def unusable(store: Store) -> dict[int, str]:
    return {number: why for number, why in (await store.kept("demo")).items() if isinstance(why, str)}


@pytest.mark.parametrize(
    "rank", ["program: 5", "program: [[a]]", "image: [1]", "image_id: {a: 1}", "engine: 7", "model: [x]", "node: 1"]
)
@pytest.mark.usefixtures("read_here")
async def test_a_file_of_other_shapes_is_told_with_its_reason(tmp_path: Path, rank: str) -> None:
    store = Store(tmp_path)
    path = await store.write(record(3))
    path.with_name("4.yaml").write_text(f"schema: 1\nkind: known-good\nranks:\n  - {{{rank}}}\n")
    assert [one.generation for one in await store.records("demo")] == [3]
    assert f"`{rank.partition(':')[0]}` of a rank" in (await unusable(store))[4]


async def test_what_is_no_plain_file_of_a_record_is_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = await store.write(record(3))
    os.mkfifo(path.with_name("4.yaml"))  # opening it would wait for a writer
    path.with_name("5.yaml").mkdir()
    path.with_name("6.yaml").symlink_to("6.yaml")
    path.with_name("007.yaml").write_text(path.read_text())
    path.with_name("٨.yaml").write_text(path.read_text())
    path.with_name("9.yaml").symlink_to("3.yaml")
    assert [one.generation for one in await store.records("demo")] == [3, 9]


async def test_only_the_newest_of_a_flood_of_files_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"{number}.yaml").touch()
    assert list(await unusable(Store(tmp_path))) == list(range(10_000 - MOST_READ, 10_000))


async def test_a_blessing_that_cannot_be_written_whole_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    await store.write(record(1))
    path = await store.write(record(2, pinned=True))
    path.with_name(".2.yaml.new").mkdir()  # the second of the two files that change cannot be written
    with pytest.raises(OSError, match="directory"):
        await store.write(record(1, pinned=True))
    assert [one.pinned for one in await Store(tmp_path).records("demo")] == [False, True]


@pytest.mark.slow
async def test_many_who_bless_at_once_leave_whole_files_and_one_reference(tmp_path: Path) -> None:
    store = Store(tmp_path)
    async with anyio.create_task_group() as group:
        for generation in (1, 2, 1, 2, 3):
            group.start_soon(store.write, record(generation, pinned=True), "name: demo\n")
    fresh = Store(tmp_path)
    assert [one.generation for one in await fresh.records("demo")] == [1, 2, 3]
    assert len([one for one in await fresh.records("demo") if one.pinned]) == 1
    assert not list((tmp_path / "demo").glob(".*"))


async def test_a_folder_that_cannot_be_used_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file where the folder was")
    (tmp_path / "hurt").mkdir()
    (tmp_path / "hurt" / "4.yaml").write_text("schema: 1\n")  # the power went
    with pytest.raises(NotRead, match=r"4\.yaml is no record: not a known-good record"):
        await Store(tmp_path).reference("hurt")
    for ask in (Store(tmp_path).records, Store(tmp_path).reference, Store(tmp_path).kept):
        with pytest.raises(NotRead, match="cannot be read"):
            await ask("demo")
    assert await Store(tmp_path).newest("demo") == 0


async def test_a_reader_that_comes_to_no_answer_is_not_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    await store.write(record(1, pinned=True))
    monkeypatch.setattr(load_config, "DEADLINE_S", 0.0)  # as where memory is gone and the child comes to nothing
    with pytest.raises(NotRead):
        await Store(tmp_path).reference("demo")
    assert [one.pinned for one in await store.records("demo")] == [True], "what was read before is known"
