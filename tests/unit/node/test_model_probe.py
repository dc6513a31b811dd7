"""The model probe on folders as they really get broken."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sparkd.facts.model import Model, Shard, parse
from sparkd.node.probes import model
from sparkd.node.refusal import Refusal


def shard(path: Path, data_bytes: int = 64, cut: int = 0) -> int:
    """A safetensors file with one tensor, `cut` bytes short. Returns its whole size."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [data_bytes // 4], "data_offsets": [0, data_bytes]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + b"\0" * data_bytes
    path.write_bytes(whole[: len(whole) - cut])
    return len(whole)


def index(folder: Path, *names: str) -> None:
    weights = {f"layer{number}": name for number, name in enumerate(names)}
    (folder / model.INDEX).write_text(json.dumps({"weight_map": weights}))


def read(folder: Path, hub: bool = False) -> Model:
    return parse(model.probe({"folder": str(folder), "hub": hub}, 1.0))


def test_a_whole_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    size = shard(tmp_path / "a.safetensors")
    index(tmp_path, "a.safetensors", "a.safetensors")
    (sha,) = read(tmp_path).hashes.values()
    assert read(tmp_path) == Model("dir", True, True, "", (Shard("a.safetensors", size, size),), {"config.json": sha})


def test_a_missing_and_a_cut_off_shard(tmp_path: Path) -> None:
    whole = shard(tmp_path / "a.safetensors", cut=10)
    index(tmp_path, "a.safetensors", "b.safetensors")
    found = read(tmp_path)
    assert not found.config
    assert found.shards == (Shard("a.safetensors", whole - 10, whole), Shard("b.safetensors", None, None))


def test_a_file_without_a_whole_header_can_never_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"\x10\0\0")
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", 1 << 40))
    assert [(one.size, one.expected) for one in read(tmp_path).shards] == [(3, 0), (8, None)]


def test_without_an_index_the_folder_tells(tmp_path: Path) -> None:
    (tmp_path / "model one.gguf").write_bytes(b"x" * 9)
    (tmp_path / "README.md").write_text("x")
    found = read(tmp_path)
    assert (found.indexed, found.shards) == (False, (Shard("model one.gguf", 9, None),))
    assert read(tmp_path / "model one.gguf") == Model("file", False, False, "", found.shards)


def test_nothing_there(tmp_path: Path) -> None:
    assert read(tmp_path / "no") == Model("missing", False, False, "", ())


def test_a_hub_cache_with_a_dangling_blob(tmp_path: Path) -> None:
    assert read(tmp_path, hub=True).revision is None
    snapshot = tmp_path / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("abc123")
    (snapshot / "a.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    found = read(tmp_path, hub=True)
    assert (found.revision, found.folder, found.shards) == ("abc123", "dir", (Shard("a.safetensors", None, None),))


@pytest.mark.parametrize("broken", ["{", '{"weight_map": 1}', '{"weight_map": {"a": "../x"}}'])
def test_an_index_that_cannot_be_read_is_refused(tmp_path: Path, broken: str) -> None:
    (tmp_path / model.INDEX).write_text(broken)
    with pytest.raises(Refusal):
        read(tmp_path)


@pytest.mark.parametrize("folder", ["relative", "/a\nb", 7])
def test_only_absolute_paths(folder: object) -> None:
    with pytest.raises(Refusal):
        model.probe({"folder": folder}, 1.0)
