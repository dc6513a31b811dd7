"""How the survey asks an API: as a stranger would, over a real socket, and an answer that does not come is unknown."""

from __future__ import annotations

import socket

from aiohttp import web

from sparkd import http
from sparkd.checks.shared.scene import Page, Place
from sparkd.model.snapshot import Unknown
from sparkd.observe.survey import Surveyor


async def test_a_page_is_asked_without_a_key() -> None:
    seen: list[str | None] = []

    async def models(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"error": "Unauthorized"}, status=401)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with socket.socket() as free:  # bound and not listening: refused
        free.bind(("127.0.0.1", 0))
        there, gone = (
            Page("spark1", Place("api", f"http://127.0.0.1:{port}"), "/v1/models")
            for port in (runner.addresses[0][1], free.getsockname()[1])
        )
        found = await Surveyor({}, "us")._answers({there, gone}, ())
    await http.aclose()
    await runner.cleanup()
    assert (found[there], seen) == ("401", [None])
    refused = found[gone]
    assert isinstance(refused, Unknown)
    assert "refused" in refused.why
