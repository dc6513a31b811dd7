"""Paths below /api/v1/nodes/NAME: planned work on a node, and its power."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from sparkd.api import parse
from sparkd.api.gate import Gate, answer, expect
from sparkd.api.service import Service


@dataclass(frozen=True, slots=True)
class NodeRoutes:
    service: Service
    gate: Gate
    body: Callable[[web.Request], Awaitable[bytes]]
    """Reads the body of a request, in bounded time."""

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/api/v1/nodes/{node}/power", self.power, expect_handler=expect)
        app.router.add_post("/api/v1/nodes/{node}/power-cycle", self.power_cycle, expect_handler=expect)
        app.router.add_post("/api/v1/nodes/{node}/maintenance", self.maintenance, expect_handler=expect)

    async def power(self, request: web.Request) -> web.Response:
        """What a power cycle would do, with secrets as their files: for those who may do it."""
        await self.gate.writer(request)
        return answer(self.service.nodes.power(self._node(request)))

    async def power_cycle(self, request: web.Request) -> web.Response:
        """Answers when it is done: within the hook's own time."""
        by = await self.gate.writer(request)
        node = self._node(request)
        force, message = parse.power_cycle(await self.body(request))
        return answer(await self.service.nodes.power_cycle(node, force, by, message))

    async def maintenance(self, request: web.Request) -> web.Response:
        """Begins it, or with `end` ends it; the loop does the rest."""
        by = await self.gate.writer(request)
        node = self._node(request)
        for_s, end, message = parse.maintenance(await self.body(request))
        nodes = self.service.nodes
        done = await (nodes.end(node, by, message) if end else nodes.maintain(node, for_s, by, message))
        return answer(done)

    def _node(self, request: web.Request) -> str:
        return parse.known_name(request.match_info["node"], self.service.view().nodes, "node")
