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
import re
import struct
import threading
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from sparkd.node import arguments, hashing, patience, regular
from sparkd.node.protocol import short_integer
from sparkd.node.refusal import Refusal

INDEX = "model.safetensors.index.json"
CONFIGS = ("config.json", "params.json")
WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
SPOKEN = (*CONFIGS, "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "hf_quant_config.json")
"""Lengths, rope, sampling defaults, chat template, quantization: another one of these is another model to its users."""
SPOKEN_BYTES = 1 << 20
MAX_SHARDS = 4096
MAX_INDEX_BYTES = 64 << 20
"""100 bytes for each tensor: 9 MB for DeepSeek-V3, some 30 MB for a quantized Kimi K2 with its four for each of 70,000 matrices."""
MAX_REST_BYTES = 64 << 10
"""Of an index beside its table: what the exporter says of itself."""
MAX_HEADER_BYTES = 8 << 20
"""Headers of the largest published shards have some 2 MB."""
TABLE = re.compile(rb'"weight_map"[ \t]{0,9}:[ \t]{0,9}\{')
PAIR = re.compile(rb'[ \t\r\n]{0,99}"[^"\\]{0,999}"[ \t]{0,9}:[ \t]{0,9}"([^"\\]{1,255})"[ \t\r\n]{0,99}([,}])')
"""A tensor and its file, and whether another one follows. As JSON all of them at once would take ten times the file, and what is
made for it forty times; no exporter writes escapes here."""
EMPTY = re.compile(rb"[ \t\r\n]{0,99}\}")

_PARSING = threading.Lock()
"""JSON takes up to thirty times its length while it is parsed: one header at a time."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """A folder is people's own: on a dead mount this look at it is left behind."""
    folder, hub = asked_folder(args)
    return patience.answered(folder, lambda _: _look(folder, hub), deadline_s * 0.9)


def _look(folder: str, hub: bool) -> str:
    place = place_of(folder, hub)
    weights = weights_in(place)
    revision = f"revision {_revision(folder) or 'missing'}\n" if hub else ""
    return "".join((revision, *_tell(place, weights), *_hashes(place, weights)))


def asked_folder(args: Mapping[str, Any]) -> Tuple[str, bool]:
    """The folder that a request means, and whether it is that of a hub's cache. Raises Refusal(usage)."""
    folder = os.path.expanduser(arguments.text(args, "folder"))  # of a user's cache
    if not os.path.isabs(folder) or "\n" in folder:
        raise Refusal("usage", "folder must be an absolute path, or below the home of a user that exists")
    return folder, arguments.flag(args, "hub")


def place_of(folder: str, hub: bool) -> str:
    """Where its files lie: of a hub's cache, in the revision that is in use."""
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
    there = regular.names(folder)
    yield f"config {next((name for name in CONFIGS if name in there), 'missing')}\n"
    yield f"index {len(weights) if INDEX in there else 'none'}\n"
    yield from map(_shard, weights)


def weights_in(folder: str) -> List[str]:
    """Paths of the weight files, by the index where there is one, whether they are there or not."""
    if not os.path.isdir(folder):
        return [folder] if os.path.isfile(folder) else []
    there = regular.names(folder)
    named = INDEX in there
    names = _index(os.path.join(folder, INDEX)) if named else [name for name in there if name.endswith(WEIGHTS)]
    if len(names) > MAX_SHARDS:
        raise Refusal("failed", f"more than {MAX_SHARDS} weight files")
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
        name = regular.beginning(os.path.join(repo, "refs", "main"), 100).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return name if name.isalnum() else None


def _index(path: str) -> List[str]:
    try:
        names = _named(regular.read(path, MAX_INDEX_BYTES))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise Refusal("failed", f"{path} cannot be read: {error}") from None
    if any("/" in name or not name.isprintable() for name in names):
        raise Refusal("failed", f"{path} names files outside of its folder")
    return sorted(names)


def _named(index: bytes) -> Set[str]:
    """The file names in the table of an index. Raises ValueError, LookupError, TypeError or RecursionError for other text."""
    begins = TABLE.search(index)
    if begins is None:
        raise ValueError("it has no weight_map")
    names: Set[bytes] = set()
    table = at = begins.end()
    more = EMPTY.match(index, at) is None
    while more:
        pair = PAIR.match(index, at)
        if pair is None:
            raise ValueError("its weight_map is no table of files")
        names.add(pair.group(1))
        at, more = pair.end() - 1, pair.group(2) == b","
        at += more  # the brace that ends the table belongs to what is around it
        if len(names) > MAX_SHARDS:
            raise ValueError(f"it names more than {MAX_SHARDS} files")
    if table + len(index) - at > MAX_REST_BYTES:
        raise ValueError(f"it holds more than {MAX_REST_BYTES >> 10} KiB beside its weight_map")
    if json.loads(index[:table] + index[at:], parse_int=short_integer)["weight_map"] != {}:
        raise ValueError("it has more than one weight_map")
    return {name.decode("utf-8") for name in names}


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
        (length,) = struct.unpack("<Q", regular.beginning(path, 8))
        if length > MAX_HEADER_BYTES:
            return -1
        text = regular.beginning(path, 8 + length)[8:]
        with _PARSING:
            header = json.loads(text, parse_int=short_integer)
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (OSError, struct.error, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0  # not even the header is whole: whatever its size is, it cannot be loaded
    return 8 + int(length) + max(ends, default=0)
