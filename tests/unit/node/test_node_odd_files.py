"""The real node service, with something odd in the place of each file that it reads: it answers, and goes on answering."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from odd_files import ODD, counted_reads, endless, fifo, nested, sparse

from sparkd.node import hashing, regular
from sparkd.node.probes import model

from .service import Answer, Connection, Service, wait_for

pytestmark = pytest.mark.timeout(120)

ANSWERED_S = 10.0
MOST_READ = model.MAX_INDEX_BYTES + (8 << 20)
MOST_KB = 160 << 10
PACKAGES = "lib/python3.12/site-packages"


class Question(NamedTuple):
    """`place`: what something odd is put in the place of, below the test's folder."""

    what: str
    place: str
    args: Callable[[Path], dict[str, Any]]


def _engine(folder: Path) -> dict[str, Any]:
    return {
        "programs": [str(folder / "bin/vllm")],
        "folders": [str(folder / "bin")],
        "user": "root",
        "files": ["vllm-*.dist-info/RECORD", "vllm/envs.py"],
    }


QUESTIONS = (
    *(
        Question("model", place, lambda folder: {"folder": str(folder), "hub": False})
        for place in (model.INDEX, "config.json", "generation_config.json", "model-1.safetensors", "x.gguf")
    ),
    Question("model", "refs/main", lambda folder: {"folder": str(folder), "hub": True}),
    Question("model", "whole", lambda folder: {"folder": str(folder / "whole"), "hub": False}),
    Question("hashes", model.INDEX, lambda folder: {"folder": str(folder), "hub": False}),
    *(
        Question("engine_python", place, _engine)
        for place in (
            "bin/vllm",
            "bin/python3",
            "lib",
            PACKAGES,
            f"{PACKAGES}/x.pth",
            f"{PACKAGES}/vllm-1.dist-info/RECORD",
            f"{PACKAGES}/vllm/envs.py",
        )
    ),
    Question("paths", "script", lambda folder: {"paths": [str(folder / "script")]}),
    Question("caches", "cache", lambda folder: {"paths": [str(folder / "cache")]}),
    Question("caches", "cache/file", lambda folder: {"paths": [str(folder / "cache")]}),
    Question("read_file", "marker", lambda folder: {"path": str(folder / "marker"), "roots": [str(folder)]}),
    Question("empty_caches", "cache", lambda folder: {"paths": [str(folder / "cache")]}),
    Question("ask_engine", "python", lambda folder: {"python": f"{folder}/python", "script": "", "user": "nobody"}),
)


def asked(node: Connection, question: Question, folder: Path) -> Answer:
    args = question.args(folder)
    if question.what in ("read_file", "empty_caches", "ask_engine"):
        return node.verb(question.what, **args)
    return node.probe({"name": question.what, "args": args}, deadline_s=ANSWERED_S)[question.what]


def in_service(service: Service, file: str, key: str) -> int:
    assert service.process is not None
    lines = Path(f"/proc/{service.process.pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def put_in(folder: Path, place: str, put: Callable[[Path], None]) -> None:
    """Everything around it is as it should be."""
    (folder / "bin").mkdir()
    (folder / "bin/vllm").write_text(f"#!{folder}/bin/python3\n")
    (folder / "bin/python3").symlink_to("/bin/sh")
    (folder / PACKAGES / "vllm").mkdir(parents=True)
    odd = folder / place
    if odd.is_symlink() or odd.is_file():
        odd.unlink()
    elif odd.is_dir():
        odd.rename(folder / "moved")
    odd.parent.mkdir(parents=True, exist_ok=True)
    put(odd)


@pytest.mark.parametrize("put", ODD)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.what}-{question.place}")
def test_the_service_answers_and_goes_on(
    service: Service, tmp_path: Path, question: Question, put: Callable[[Path], None]
) -> None:
    put_in(tmp_path, question.place, put)
    with service.claimed() as node:
        read = in_service(service, "io", "rchar")
        answer = asked(node, question, tmp_path)
        assert "no answer in" not in str(answer), answer
        assert "still running" not in str(answer), answer
        assert in_service(service, "io", "rchar") - read < MOST_READ
        assert in_service(service, "status", "VmHWM") < MOST_KB
        assert "running since" not in str(asked(node, question, tmp_path)), "nothing of it hangs"
        assert node.text("boot")


@pytest.mark.parametrize(
    ("put", "why"), [(fifo, "it is a FIFO"), (endless, "it is a device"), (sparse, "it is larger than 64 MiB")]
)
def test_an_index_that_is_none_is_said(node: Connection, tmp_path: Path, put: Callable[[Path], None], why: str) -> None:
    put(tmp_path / model.INDEX)
    answer = node.probe({"name": "model", "args": {"folder": str(tmp_path), "hub": False}})["model"]
    assert answer["code"] == "failed"
    assert why in answer["error"]


def test_an_index_is_read_without_making_objects_of_it(service: Service, tmp_path: Path) -> None:
    """One of 280,000 tensors, as of the largest models that there are: as JSON it took 110 MB."""
    table = {
        f"model.layers.{one % 61}.mlp.experts.{one}.down_proj.weight_scale_2": f"{one % 119:05}.safetensors"
        for one in range(280_000)
    }
    (tmp_path / model.INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": table}, indent=2))
    size = (tmp_path / model.INDEX).stat().st_size
    with service.claimed() as node:
        assert node.text("model", folder=str(tmp_path), hub=False).count("shard -1 -1") == 119
    assert in_service(service, "status", "VmHWM") << 10 < (40 << 20) + 2.5 * size


@pytest.mark.parametrize(
    "index",
    [
        '{"weight_map": {"a": "x.bin"',
        '{"weight_map": {"a": "x.bin",}}',
        '{"weight_map": {"a": "x.bin"}}}',
        '{"weight_map": {"a": ["x.bin"]}}',
        '{"weight_map": {"a": "../x.bin"}}',
        '{"weight_map": {"a": "x.bin"}, "weight_map": {"b": "y.bin"}}',
        '{"metadata": {"weight_map": {"a": "x.bin"}}}',
        '{"metadata": %s, "weight_map": {}}' % ("[" * 30_000),
        '{"metadata": %s, "weight_map": {}}' % ("1" * 30_000),
        '{"metadata": "%s", "weight_map": {}}' % ("x" * 70_000),
        '{{"weight_map": {{{}}}}}'.format(",".join(f'"{one}": "{one}.bin"' for one in range(model.MAX_SHARDS + 1))),
        "[" * 100_000,
        "[]",
        "",
    ],
)
def test_what_is_no_index_is_refused(node: Connection, tmp_path: Path, index: str) -> None:
    (tmp_path / model.INDEX).write_text(index)
    answer = node.probe({"name": "model", "args": {"folder": str(tmp_path), "hub": False}})["model"]
    assert answer.get("code") == "failed", answer
    assert "unexpected" not in answer["error"]


@pytest.mark.parametrize("index", ['{"weight_map":{"a":"x.bin"}}', '{\n "weight_map" : {\n "a" : "x.bin"\n }\n}\n'])
def test_an_index_is_read_as_it_was_indented(node: Connection, tmp_path: Path, index: str) -> None:
    (tmp_path / model.INDEX).write_text(index)
    assert "shard -1 -1 x.bin" in node.text("model", folder=str(tmp_path), hub=False)


def test_a_header_of_numbers_and_brackets_keeps_nobody(service: Service, tmp_path: Path) -> None:
    """A number of a million digits took minutes, with the interpreter locked; and half of a header that is read is none."""
    for at, text in enumerate((b'{"a":' + b"1" * (4 << 20) + b"}", b"[" * (4 << 20), b'{"a":{"data_offsets":[0,{}]}}')):
        (tmp_path / f"{at}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with service.claimed() as node:
        said = node.text("model", folder=str(tmp_path), hub=False)
        assert [line.split()[2] for line in said.splitlines() if line.startswith("shard")] == ["0", "0", "0"]


def test_caches_too_deep_for_a_path_are_measured_and_emptied(node: Connection, tmp_path: Path) -> None:
    with nested(tmp_path / "cache") as cache:
        assert node.text("caches", paths=[str(cache)]).split()[1] == "1"
        assert node.verb("empty_caches", paths=[str(cache)])["result"][str(cache)] >= 4096
        assert list(cache.iterdir()) == []


@pytest.mark.parametrize("put", ODD)
@pytest.mark.parametrize("place", ["node.json", "state/owner", "state/boot-memory.json"])
def test_the_service_starts_whatever_lies_in_the_place_of_its_own_files(
    unstarted: Service, place: str, put: Callable[[Path], None]
) -> None:
    (unstarted.folder / "state").mkdir()
    put(unstarted.folder / place)
    unstarted.start()
    with unstarted.connect() as node:
        assert node.ask("hello")["ok"]


@pytest.mark.parametrize("put", [fifo, endless])
def test_a_file_to_be_hashed_that_became_another_is_said(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "libnccl.so")
    with counted_reads() as count, pytest.raises(regular.NotRegular):
        hashing.sha256(str(tmp_path / "libnccl.so"), lambda: True)
    assert count() < 10_000


def test_a_file_that_is_written_while_it_is_hashed_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "CHUNK_BYTES", 1000)
    path = tmp_path / "x"
    path.write_bytes(b"x" * 5000)
    asked = 0

    def grows() -> bool:
        nonlocal asked
        asked += 1
        with path.open("ab") as file:
            file.write(b"x" * 2000)
        return True

    with pytest.raises(OSError, match="was written while it was read"):
        hashing.sha256(str(path), grows)
    assert asked == 5, "no more than it had at the beginning"
    assert hashing.known(str(path)) is None


def test_hashing_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a dead mount: the next folder's weights are hashed all the same."""
    monkeypatch.setattr(hashing, "HUNG_S", 0.1)
    hang, good = tmp_path / "hang.bin", tmp_path / "good.bin"
    hang.write_bytes(b"a")
    good.write_bytes(b"b")
    opened = regular.opened

    def opens(path: str) -> int:
        if path == str(hang):
            time.sleep(3600)
        return opened(path)

    monkeypatch.setattr(regular, "opened", opens)
    job = hashing.Job()
    assert job.ask([str(hang)]).done == 0
    wait_for("the other folder is hashed", lambda: job.ask([str(good)]).done == 1)
    assert hashing.known(str(hang)) is None
