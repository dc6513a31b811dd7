"""`python -m tests.bench.docker SOCKET FOLDER`: a Docker whose containers are the ranks in FOLDER, as far as sparkd looks.

The daemon then looks at simulated ranks through the client, and at the cost, that real ones have.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from sparkd.runtimes import shim_record
from sparkd.runtimes.shim_record import Record

VERSION = {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0.0"}


class Docker:
    """Looking is all it can do: ranks are started and ended by their shims."""

    def __init__(self, ranks: Path) -> None:
        self._ranks = ranks

    def app(self) -> web.Application:
        made = web.Application()
        for prefix in ("", "/v{api}"):
            made.router.add_get(f"{prefix}/version", self.version)
            made.router.add_get(f"{prefix}/containers/json", self.list)
            made.router.add_get(f"{prefix}/containers/{{id}}/json", self.inspect)
            made.router.add_get(f"{prefix}/events", self.events)
        return made

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response(VERSION)

    async def list(self, request: web.Request) -> web.Response:
        return web.json_response([_entry(record) for record in self._records()])

    async def inspect(self, request: web.Request) -> web.Response:
        for record in self._records():
            if record.id == request.match_info["id"]:
                return web.json_response(_inspected(record))
        return web.json_response({"message": "No such container"}, status=404)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Nothing ever happens."""
        response = web.StreamResponse()
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.sleep(1)
        return response

    def _records(self) -> tuple[Record, ...]:
        folders = sorted(self._ranks.iterdir()) if self._ranks.exists() else []
        return tuple(shim_record.read(folder) for folder in folders if not folder.name.startswith("."))


def _entry(record: Record) -> Mapping[str, Any]:
    """`Status` tells what a client may remember an inspection by."""
    state = record.container().state
    status = f"{state} {record.started_at}"
    return {
        "Id": record.id,
        "Names": [f"/{record.name}"],
        "Labels": record.labels,
        "State": state,
        "Status": status,
    }


def _inspected(record: Record) -> Mapping[str, Any]:
    seen = record.container()
    state = {
        "Status": seen.state,
        "Running": seen.state == "running",
        "Restarting": False,
        "ExitCode": seen.exit_code or 0,
        "OOMKilled": False,
        "Error": seen.error,
        "Pid": seen.pid,
        "StartedAt": seen.started_at,
        "FinishedAt": seen.finished_at,
    }
    return {"Id": record.id, "Name": f"/{record.name}", "Config": {"Labels": record.labels}, "State": state}


async def listen(ranks: Path, *sockets: str) -> None:
    runner = web.AppRunner(Docker(ranks).app(), access_log=None)
    await runner.setup()
    for socket in sockets:
        await web.UnixSite(runner, socket).start()


async def main(socket: str, ranks: str) -> None:
    await listen(Path(ranks), socket)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
