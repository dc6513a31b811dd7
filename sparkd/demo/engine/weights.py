"""Turns a model directory into "can be loaded" or the error vLLM's loader ends with (evidence 13a to 13c)."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

from . import texts


def find(model: str) -> str | None:
    """The error of a model that cannot be found; a hub name counts as cached unless HF_HUB_OFFLINE is 1."""
    if Path(model).is_dir():
        return None
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        return texts.BAD_MODEL.format(model)
    return texts.NO_SNAPSHOT if os.environ.get("HF_HUB_OFFLINE") == "1" else None


def check(model: str) -> str | None:
    """The error of a missing or cut-off weight file, None when all can be read."""
    folder = Path(model)
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        wanted = sorted({folder / name for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError):
        wanted = sorted(folder.glob("*.safetensors"))  # one unsharded file, or a model that is a name only
    missing = {str(path) for path in wanted if not path.exists()}
    if missing:
        return f"FileNotFoundError: Weight files referenced in index but missing: {missing}"
    if all(whole(path) for path in wanted):
        return None
    return texts.BAD_HEADER


def whole(path: Path) -> bool:
    """Whether a safetensors file is as long as its header says: 8 bytes of length, the header, then the tensors."""
    with path.open("rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return False
        (header_bytes,) = struct.unpack("<Q", head)
        try:
            header = json.loads(file.read(header_bytes))
        except ValueError:
            return False
    ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    wanted_bytes: int = 8 + header_bytes + max(ends, default=0)
    return path.stat().st_size >= wanted_bytes
