"""Weights are hashed beside everything else: slowly, only while somebody asks, and never twice."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkd.facts.hashes import parse as parse_hashed
from sparkd.facts.model import parse
from sparkd.node import hashing
from sparkd.node.probes import hashes, model


def until(what: str, condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.01)


def folder_of(tmp_path: Path, *contents: bytes) -> list[str]:
    paths = [tmp_path / f"model-{number}.safetensors" for number, _ in enumerate(contents)]
    for path, text in zip(paths, contents, strict=True):
        path.write_bytes(text)
    return [str(path) for path in paths]


def test_a_question_starts_it_and_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "CHUNK_BYTES", 1000)
    paths = folder_of(tmp_path, b"a" * 3000, b"b" * 5000)
    job = hashing.Job(rate_bytes_s=20_000)
    began = time.monotonic()
    assert job.ask(paths) == (0, 8000, ())
    until("the first file", lambda: job.ask(paths).done == 3000)
    until("both files", lambda: job.ask(paths).done == 8000)
    assert time.monotonic() - began > 0.3, "at no more than its rate"
    assert hashing.known(paths[1]) == hashlib.sha256(b"b" * 5000).hexdigest()


def test_it_ends_when_nobody_asks_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "CHUNK_BYTES", 100)
    monkeypatch.setattr(hashing, "UNASKED_S", 0.1)
    paths = folder_of(tmp_path, b"c" * 100_000)
    job = hashing.Job(rate_bytes_s=1000)
    job.ask(paths)
    until("its end", lambda: not job.works())
    assert hashing.known(paths[0]) is None


def test_a_file_that_cannot_be_read_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    paths = [str(tmp_path), *folder_of(tmp_path, b"d" * 10)]  # a folder can be opened by nobody
    job = hashing.Job()
    until("the rest", lambda: job.ask(paths).done == job.ask(paths).total)
    assert job.ask(paths).unread == (str(tmp_path),)
    assert hashing.known(paths[1]) is not None


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    (path,) = folder_of(tmp_path, b"e" * 10)
    before = hashing.sha256(path, lambda: True)
    Path(path).write_bytes(b"f" * 10)
    os.utime(path, ns=(1, 1))
    assert hashing.known(path) is None
    assert hashing.sha256(path, lambda: True) != before
    assert hashing.sha256(path, lambda: False) is not None, "known without reading"


def test_the_model_probe_says_what_is_hashed(tmp_path: Path) -> None:
    folder_of(tmp_path, b"g" * 20)
    (tmp_path / "config.json").write_text("{}")
    args = {"folder": str(tmp_path), "hub": False}
    found = parse(model.probe(args, 1.0))
    assert set(found.hashes) == {"config.json"}, "weights only when somebody asks"
    until("the weights", lambda: (said := parse_hashed(hashes.probe(args, 1.0))).done == said.total == 20)
    found = parse(model.probe(args, 1.0))
    assert found.hashes["model-0.safetensors"] == hashlib.sha256(b"g" * 20).hexdigest()
    assert found.hashes["config.json"] == hashlib.sha256(b"{}").hexdigest()
