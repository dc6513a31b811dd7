"""What this service knows for its whole life: which boot of which node it serves, its owner, its settings."""

from __future__ import annotations

import os
import socket
from typing import Any, Mapping, NamedTuple

from sparkd import __version__
from sparkd.node import procfs
from sparkd.node.config import Config
from sparkd.node.owner import OwnerFile
from sparkd.node.protocol import PROTOCOL


class Node(NamedTuple):
    boot: procfs.BootIdentity
    hostname: str
    owner: OwnerFile
    config: Config

    @property
    def signature(self) -> Mapping[str, Any]:
        """Ends every answer: who answered, and in which boot."""
        return {"v": PROTOCOL, "service": __version__, "boot_id": self.boot.boot_id, "pid1_ticks": self.boot.pid1_ticks}


def this(config: Config) -> Node:
    owner = OwnerFile(os.path.join(config.state_dir, "owner"))
    return Node(procfs.boot_identity(), socket.gethostname(), owner, config)
