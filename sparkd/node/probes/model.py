"""A model's folder -> what is there of it, by its own index and by the headers of its files; no weight is read.

`folder KIND`, `revision NAME|missing` (a Hugging Face cache), `config NAME|missing`, `index SHARDS|none`, and for every
weight file `shard SIZE EXPECTED NAME`: SIZE is -1 where the index names a file that is missing, EXPECTED is what the
file's own header says it must hold, -1 where it cannot say.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Iterator, Mapping, Optional

from sparkd.node import arguments
from sparkd.node.refusal import Refusal

INDEX = "model.safetensors.index.json"
CONFIGS = ("config.json", "params.json")
WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
MAX_SHARDS = 4096
MAX_HEADER_BYTES = 32 << 20
"""Headers of the largest published shards have some 2 MB."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    folder = os.path.expanduser(arguments.text(args, "folder"))  # of a user's cache
    if not os.path.isabs(folder) or "\n" in folder:
        raise Refusal("usage", "folder must be an absolute path, or below the home of a user that exists")
    return "".join(_tell(folder, arguments.flag(args, "hub")))


def _tell(folder: str, hub: bool) -> Iterator[str]:
    if hub:
        revision = _revision(folder)
        yield f"revision {revision or 'missing'}\n"
        folder = os.path.join(folder, "snapshots", revision or "-")
    if os.path.isfile(folder):  # llama.cpp's models are one file
        yield "folder file\n"
        yield _shard(os.path.dirname(folder), os.path.basename(folder))
        return
    yield f"folder {'dir' if os.path.isdir(folder) else 'missing'}\n"
    if os.path.isdir(folder):
        yield from _inside(folder)


def _revision(repo: str) -> Optional[str]:
    try:
        with open(os.path.join(repo, "refs", "main"), encoding="ascii") as file:
            name = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return name if name.isalnum() else None


def _inside(folder: str) -> Iterator[str]:
    there = os.listdir(folder)
    yield f"config {next((name for name in CONFIGS if name in there), 'missing')}\n"
    named = _index(os.path.join(folder, INDEX)) if INDEX in there else None
    yield f"index {'none' if named is None else len(named)}\n"
    names = sorted(name for name in there if name.endswith(WEIGHTS)) if named is None else named
    if len(names) > MAX_SHARDS:
        raise Refusal("failed", f"more than {MAX_SHARDS} weight files")
    for name in names:
        yield _shard(folder, name)


def _index(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            names = {str(name) for name in json.load(file)["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal("failed", f"{path} cannot be read: {error}") from None
    if any("/" in name or "\n" in name for name in names):
        raise Refusal("failed", f"{path} names files outside of its folder")
    return sorted(names)


def _shard(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    try:
        size = os.stat(path).st_size
    except OSError:  # missing, or a link into a cache whose blob is gone
        return f"shard -1 -1 {name}\n"
    expected = _expected(path) if name.endswith(".safetensors") else -1
    return f"shard {size} {expected} {name}\n"


def _expected(path: str) -> int:
    """8 bytes of length, the header, and the data as far as the header's last offset. -1 for what is no such file."""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MAX_HEADER_BYTES:
                return -1
            header = json.loads(file.read(length))
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (OSError, struct.error, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0  # not even the header is whole: whatever its size is, it cannot be loaded
    return 8 + int(length) + max(ends, default=0)
