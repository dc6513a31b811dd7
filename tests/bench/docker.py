"""`python -m tests.bench.docker SOCKET…`: a Docker without containers behind each socket, as far as sparkd asks one."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

VERSION = {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0.0"}


async def version(request: web.Request) -> web.Response:
    return web.json_response(VERSION)


async def containers(request: web.Request) -> web.Response:
    return web.json_response([])


async def events(request: web.Request) -> web.StreamResponse:
    """Nothing ever happens."""
    response = web.StreamResponse()
    await response.prepare(request)
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(1)
    return response


def app() -> web.Application:
    made = web.Application()
    for prefix in ("", "/v{api}"):
        made.router.add_get(f"{prefix}/version", version)
        made.router.add_get(f"{prefix}/containers/json", containers)
        made.router.add_get(f"{prefix}/events", events)
    return made


async def listen(*paths: str) -> None:
    runner = web.AppRunner(app(), access_log=None)
    await runner.setup()
    for path in paths:
        await web.UnixSite(runner, path).start()


async def main(*paths: str) -> None:
    await listen(*paths)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
