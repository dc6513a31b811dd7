"""`python -m tests.bench.crowd FOLDER COUNT`: many nodes in one process, which answer with texts recorded on real ones.

Node N has the sockets FOLDER/N.sock and FOLDER/N-docker.sock. Those in FOLDER/mute, one number a line, accept and say nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from .docker import listen

RECORDED = Path(__file__).parents[1] / "facts" / "recorded"
FOLDERS = {"boot": "boot", "meminfo": "memory", "system": "system", "docker": "docker", "sockets": "sockets"} | {
    name: name for name in ("ping", "processes", "paths", "shm")
}
"""Probe -> where its recorded texts are."""
SIGNATURE = {"v": 1, "service": "bench", "boot_id": "0d9c1f0e-6f0f-4a53-9f5f-0f8b1e6d4c11", "pid1_ticks": 12}
HELLO = {**SIGNATURE, "protocols": [1], "owner": None, "hostname": "bench"}


class Node:
    """One node's service."""

    def __init__(self, mute: bool) -> None:
        self._mute = mute
        self._texts = {
            probe: (RECORDED / name / "lab-head.txt").read_text("utf-8", "surrogateescape")
            for probe, name in FOLDERS.items()
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if not self._mute:
                writer.write(b"".join(json.dumps(one).encode() + b"\n" for one in self._answers(json.loads(line))))
        writer.close()

    def _answers(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        if request["op"] != "probe":
            return [{"ok": True, "result": HELLO, **SIGNATURE}]
        names = [one["name"] for one in request["probes"]]
        return [{"probe": name, "text": self._texts[name]} for name in names] + [{"done": True, **SIGNATURE}]


async def main(folder: str, count: str) -> None:
    mute = {int(line) for line in (Path(folder) / "mute").read_text("utf-8").split()}
    for number in range(int(count)):
        node = Node(number in mute)
        await asyncio.start_unix_server(node.serve, f"{folder}/{number}.sock")
    sockets = [f"{folder}/{number}-docker.sock" for number in range(int(count)) if number not in mute]
    await listen(Path(folder) / "no-ranks", *sockets)
    (Path(folder) / "ready").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
