"""/etc/sparkd/node.json -> the few settings of a node service; a broken file costs read_file, never the service."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Optional

from sparkd.node import regular

DEFAULT_PATH = "/etc/sparkd/node.json"
MOST_BYTES = 1 << 20
DEFAULT_STATE_DIR = "/var/lib/sparkd-node"


class Config(NamedTuple):
    """`problem` says what is wrong with the file; then there are no read roots."""

    read_roots: Optional[tuple[str, ...]] = None
    """None: the file says nothing of them, and those that a request names count."""
    state_dir: str = DEFAULT_STATE_DIR
    problem: Optional[str] = None


def load(path: str) -> Config:
    """A node that cannot be asked is worse than one that refuses to read files, so nothing raises here."""
    try:
        return _checked(json.loads(regular.read(path, MOST_BYTES)))
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError, RecursionError) as error:
        return Config(problem=f"{path}: {error}")


def _checked(content: Any) -> Config:
    if not isinstance(content, dict):
        raise ValueError("must be an object")
    unknown = sorted(set(content) - {"read_roots", "state_dir"})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are read_roots and state_dir")
    roots = content.get("read_roots")
    state_dir = content.get("state_dir", DEFAULT_STATE_DIR)
    if roots is not None and not isinstance(roots, list):
        raise ValueError("read_roots must be a list")
    for path in [*(roots or ()), state_dir]:
        if not isinstance(path, str) or not path.startswith("/") or os.path.normpath(path) != path:
            raise ValueError(f"{path!r} is not an absolute path without '..' and without a slash at its end")
    return Config(None if roots is None else tuple(roots), state_dir)
