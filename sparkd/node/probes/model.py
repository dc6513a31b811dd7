"""A model's folder -> what is there of it, by its own index and by the headers of its files; no weight is read.

`sha SHA256 NAME` follows for small files that say how the model is used, and for weights that were hashed on request (the
probe `hashes`: `progress DONE TOTAL`, in bytes, and `unread NAME`).

`folder KIND`, `revision NAME|missing` (a Hugging Face cache), `config NAME|missing`, `index SHARDS|none`, and for every
weight file `shard SIZE EXPECTED NAME`: SIZE is -1 where the index names a file that is missing, EXPECTED is what the
file's own header says it must hold, -1 where it cannot say.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from sparkd.node import arguments, hashing
from sparkd.node.refusal import Refusal

INDEX = "model.safetensors.index.json"
CONFIGS = ("config.json", "params.json")
WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
SPOKEN = (*CONFIGS, "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "hf_quant_config.json")
"""Lengths, rope, sampling defaults, chat template, quantization: another one of these is another model to its users."""
SPOKEN_BYTES = 1 << 20
MAX_SHARDS = 4096
MAX_HEADER_BYTES = 32 << 20
"""Headers of the largest published shards have some 2 MB."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    folder, hub = _where(args)
    place = _folder(folder, hub)
    weights = _weights(place)
    revision = f"revision {_revision(folder) or 'missing'}\n" if hub else ""
    return "".join((revision, *_tell(place, weights), *_hashes(place, weights)))


_JOB = hashing.Job()


def hashes(args: Mapping[str, Any], deadline_s: float) -> str:
    """Go on hashing the weights of this folder, and how far that is; never waits for it."""
    found = _JOB.ask([path for path in _weights(_folder(*_where(args))) if os.path.isfile(path)])
    unread = "".join(f"unread {os.path.basename(path)}\n" for path in found.unread)
    return f"progress {found.done} {found.total}\n{unread}"


def _where(args: Mapping[str, Any]) -> Tuple[str, bool]:
    folder = os.path.expanduser(arguments.text(args, "folder"))  # of a user's cache
    if not os.path.isabs(folder) or "\n" in folder:
        raise Refusal("usage", "folder must be an absolute path, or below the home of a user that exists")
    return folder, arguments.flag(args, "hub")


def _folder(folder: str, hub: bool) -> str:
    return os.path.join(folder, "snapshots", _revision(folder) or "-") if hub else folder


def _tell(folder: str, weights: Sequence[str]) -> Iterator[str]:
    if os.path.isfile(folder):  # llama.cpp's models are one file
        yield "folder file\n"
        yield _shard(folder)
        return
    yield f"folder {'dir' if os.path.isdir(folder) else 'missing'}\n"
    if os.path.isdir(folder):
        yield from _inside(folder, weights)


def _inside(folder: str, weights: Sequence[str]) -> Iterator[str]:
    there = os.listdir(folder)
    yield f"config {next((name for name in CONFIGS if name in there), 'missing')}\n"
    yield f"index {len(weights) if INDEX in there else 'none'}\n"
    if len(weights) > MAX_SHARDS:
        raise Refusal("failed", f"more than {MAX_SHARDS} weight files")
    yield from map(_shard, weights)


def _weights(folder: str) -> List[str]:
    """Paths of the weight files, by the index where there is one, whether they are there or not."""
    if not os.path.isdir(folder):
        return [folder] if os.path.isfile(folder) else []
    there = os.listdir(folder)
    named = INDEX in there
    names = _index(os.path.join(folder, INDEX)) if named else sorted(name for name in there if name.endswith(WEIGHTS))
    return [os.path.join(folder, name) for name in names]


def _hashes(folder: str, weights: Sequence[str]) -> Iterator[str]:
    for path in (*(os.path.join(folder, name) for name in SPOKEN), *weights):
        name = os.path.basename(path)
        try:
            small = name in SPOKEN and os.stat(path).st_size <= SPOKEN_BYTES
            sha = hashing.sha256(path, lambda: True) if small else hashing.known(path)
        except OSError:  # not there, which the other lines say
            continue
        if sha is not None:
            yield f"sha {sha} {name}\n"


def _revision(repo: str) -> Optional[str]:
    try:
        with open(os.path.join(repo, "refs", "main"), encoding="ascii") as file:
            name = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return name if name.isalnum() else None


def _index(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            names = {str(name) for name in json.load(file)["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal("failed", f"{path} cannot be read: {error}") from None
    if any("/" in name or "\n" in name for name in names):
        raise Refusal("failed", f"{path} names files outside of its folder")
    return sorted(names)


def _shard(path: str) -> str:
    name = os.path.basename(path)
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
