"""The owner id of this node, remembered in one root-owned file: a second sparkd is refused until it takes over."""

from __future__ import annotations

import os
import re
import threading
from typing import Optional

from sparkd.node import regular
from sparkd.node.refusal import Refusal

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

UNREADABLE = "unreadable"
"""Stands for an owner file without a proper id: no sparkd matches it, and only taking over replaces it."""


class OwnerFile:
    """Read once at the start, then kept in memory: no request waits for a dead disk to learn whose node this is."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._owner = _read(path)

    @property
    def owner(self) -> Optional[str]:
        return self._owner

    def check(self, owner: str) -> None:
        """Raises Refusal(owner) for everybody but the owner."""
        current = self._owner
        if current is None:
            raise Refusal("owner", "this node has no owner yet: claim it first")
        if owner != current:
            raise Refusal("owner", f"this node belongs to sparkd {current}, not to {owner or 'an unnamed one'}")

    def claim(self, owner: str, take: bool) -> Optional[str]:
        """Stores `owner`, returns the previous one. Raises Refusal(owner) if another holds the node, unless `take`."""
        if not UUID.fullmatch(owner):
            raise Refusal("usage", "owner must be a lower-case uuid")
        with self._lock:
            previous = self._owner
            if previous == owner:
                return previous
            if previous is not None and not take:
                raise Refusal("owner", f"this node belongs to sparkd {previous}; take it over only if that one is gone")
            _write(self._path, owner)
            self._owner = owner
            return previous


def _read(path: str) -> Optional[str]:
    try:
        content = regular.beginning(path, 200).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError:  # it exists and cannot be read: never treat the node as free
        return UNREADABLE
    return content if UUID.fullmatch(content) else UNREADABLE


def _write(path: str, owner: str) -> None:
    """Writes all or nothing, also through a power cut: a new file is written, synced and renamed, then the folder synced."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    beside = f"{path}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, owner.encode("ascii") + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(beside, path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
