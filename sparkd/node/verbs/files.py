"""A path under a configured root -> the first or last bytes of that regular file, reached without following a link."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, Mapping

from sparkd.node import arguments, patience
from sparkd.node.node import Node
from sparkd.node.refusal import Refusal

MAX_BYTES = 4 << 20
ROOT = re.compile(r"/[^\0]{0,4095}")
FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Not blocking: a FIFO below a root must not hang the service."""


def read_file(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    """{text, size_bytes, offset, mtime}. Bytes that are not UTF-8 come as U+FFFD."""
    path = arguments.text(args, "path")
    max_bytes = arguments.integer(args, "max_bytes", 1, MAX_BYTES, default=65536)
    tail = arguments.flag(args, "tail")
    _allowed(node, path, arguments.items(args, "roots", ROOT))
    return patience.answered(path, lambda _: _read(path, max_bytes, tail), deadline_s * 0.9)


def _read(path: str, max_bytes: int, tail: bool) -> Mapping[str, Any]:
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        raise Refusal("not_found", f"{path} does not exist") from None
    except OSError as error:
        raise _explained(path, error) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refusal("refused", f"{path} is not a regular file")
        offset = max(0, status.st_size - max_bytes) if tail else 0
        text = os.pread(descriptor, max_bytes, offset).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    return {"text": text, "size_bytes": status.st_size, "offset": offset, "mtime": status.st_mtime}


def _allowed(node: Node, path: str, asked: tuple[str, ...]) -> None:
    """The node's own file decides; where it says nothing, the head does, which may start any process here anyway."""
    if node.config.problem:
        raise Refusal("failed", f"no read roots: {node.config.problem}")
    if not path.startswith("/") or "\0" in path or os.path.normpath(path) != path:
        raise Refusal("usage", "path must be absolute, without '..', double slashes or a slash at its end")
    own = node.config.read_roots
    roots, where = (
        (asked, "paths.node_read_roots of the head") if own is None else (own, "read_roots in /etc/sparkd/node.json")
    )
    if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots):
        raise Refusal("refused", f"{path} is not under one of {where} ({', '.join(roots) or 'none'})")


def _open(path: str) -> int:
    """Component by component from the root: a path that was only checked as text could be swapped for a link."""
    *folders, name = path.split("/")[1:]
    here = os.open("/", FOLDER_FLAGS)
    try:
        for folder in folders:
            inside = os.open(folder, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = inside
        return os.open(name, FILE_FLAGS, dir_fd=here)
    finally:
        os.close(here)


def _explained(path: str, error: OSError) -> Refusal:
    # O_DIRECTORY with O_NOFOLLOW says "not a directory" for a link, O_NOFOLLOW alone says "too many links".
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Refusal("refused", f"{path} leads through a link or something that is not a folder")
    return Refusal("failed", f"{path}: {error.strerror}")
