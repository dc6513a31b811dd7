"""Paths to answers: the HTTP interface, the same on both listeners but for who may write."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from aiohttp import web

from sparkd.api import captures, node_routes, parse
from sparkd.api.gate import HEADERS, Gate, answer, boundary, encoded, expect, json_page, peer_id, retry_after
from sparkd.api.page import PAGE, PAGE_HEADERS
from sparkd.api.service import Invalid, NotFound, Service
from sparkd.api.streams import Places, event, line, relay
from sparkd.base.errors import SparkdError
from sparkd.checks import all_checks
from sparkd.checks.shared.report import listing
from sparkd.journal import as_json
from sparkd.reporting.exporter import Exporter
from sparkd.verbs import verbs

T = TypeVar("T")

BODY_BYTES = 64 * 1024
BODY_S = 5.0
STALE_S = 60.0
"""A loop silent for this long can vouch for nothing; the watchdog ends it soon after."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Every route; one instance per listener."""

    service: Service
    exporter: Exporter
    gate: Gate
    places: Places = field(default_factory=Places)
    reading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a costly answer is made."""

    def app(self) -> web.Application:
        """The aiohttp application of this listener."""
        app = web.Application(middlewares=[boundary(self.gate)], client_max_size=BODY_BYTES)
        for path, handler in {
            "/": self.page,
            "/metrics": self.metrics,
            "/healthz": self.healthz,
            "/ready/{name}": self.ready,
            "/api/v1/status": self.status,
            "/api/v1/nodes": self.nodes,
            "/api/v1/history": self.history,
            "/api/v1/outages": self.outages,
            "/api/v1/events": self.events,
            "/api/v1/operations/{id}": self.operation,
            "/api/v1/deployments/{name}/logs": self.logs,
            "/api/v1/deployments/{name}/why": self.why,
            "/api/v1/deployments/{name}/captures": self.captures,
            "/api/v1/deployments/{name}/captures/{generation}": self.capture,
            "/api/v1/deployments/{name}/captures/{generation}/logs": self.capture_logs,
            "/api/v1/deployments/{name}/checks": self.checks,
            "/api/v1/deployments/{name}/cleanup": self.cleanup,
            "/api/v1/deployments/{name}/drift": self.drift,
            "/api/v1/deployments/{name}/build": self.build,
            "/api/v1/deployments/{name}/hashes": self.hashes,
            "/api/v1/deployments/{name}/known-good": self.known_good,
            "/api/v1/deployments/{name}/known-good/{generation}": self.record,
            "/api/v1/deployments/{name}/known-good/{generation}/diff/{other}": self.apart,
            "/api/v1/checks": self.all_checks,
        }.items():
            app.router.add_get(path, handler, expect_handler=expect)
        app.router.add_post("/api/v1/deployments/{name}/checks", self.check, expect_handler=expect)
        app.router.add_post("/api/v1/deployments/{name}/known-good", self.bless, expect_handler=expect)
        app.router.add_post("/api/v1/deployments/{name}/{verb}", self.operate, expect_handler=expect)
        app.router.add_post("/api/v1/reload", self.reload, expect_handler=expect)
        node_routes.NodeRoutes(self.service, self.gate, self._body).add_to(app)
        return app

    # ----------------------------------------------------------------------------------------------------------- look

    async def page(self, request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html", charset="utf-8", headers=PAGE_HEADERS)

    async def metrics(self, request: web.Request) -> web.Response:
        body, content_type = self.exporter.page(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def healthz(self, request: web.Request) -> web.Response:
        """The loop itself: has it run within three periods?"""
        daemon = self.service.view().daemon
        alive = daemon.loop_age_s <= 3 * daemon.period_s
        return answer({"schema": 1, "ok": alive, "loop_age_s": round(daemon.loop_age_s, 3)}, 200 if alive else 503)

    async def ready(self, request: web.Request) -> web.Response:
        """200 only while this deployment answers real requests, as far as a living loop knows."""
        view = self.service.view()
        name = parse.known_name(request.match_info["name"], (one.name for one in view.deployments), "deployment")
        now = self.service.shown.picture(view).found
        found = next(one for one in now["deployments"] if one["name"] == name)
        stale = view.daemon.loop_age_s > STALE_S
        said = f"sparkd has not looked for {view.daemon.loop_age_s:.0f} s" if stale else found["sentence"]
        body = {"schema": 1, "phase": found["phase"], "sentence": said}
        if found["serving"] and not stale:
            return answer(body)
        wait = retry_after(found, view.wall)
        return answer({**body, "retry_after_s": wait}, 503, {"Retry-After": str(wait)})

    async def status(self, request: web.Request) -> web.Response:
        now = self.service.view()
        return json_page(self.service.shown.picture(now).page.served(now))

    async def nodes(self, request: web.Request) -> web.Response:
        now = self.service.view()
        return json_page(self.service.shown.picture(now).nodes.served(now))

    async def history(self, request: web.Request) -> web.Response:
        limit = parse.whole_number(request.query, "limit", 100, 1, 1000)
        after = parse.whole_number(request.query, "after", 0, 0, 2**53)
        async with self._costly(request):
            events = await self.service.history(request.query.get("deployment") or None, limit, after)
            return json_page(await _aside(lambda: encoded({"schema": 1, "events": [as_json(one) for one in events]})))

    async def outages(self, request: web.Request) -> web.Response:
        name = request.query.get("deployment") or None
        async with self._costly(request):
            return json_page(await _aside(lambda: encoded(self.service.outages(name))))

    @asynccontextmanager
    async def _costly(self, request: web.Request) -> AsyncIterator[None]:
        """What cannot be kept as a copy and costs tens of milliseconds: one at a time on a listener, the others wait.

        The thread that reads the journal is the one that writes states and wishes to it: a hundred readers at once made
        those so late that the disk was taken for one that hangs.
        """
        async with self.reading:
            if request.transport is None or request.transport.is_closing():
                raise ConnectionError  # nobody waits any more
            yield

    async def why(self, request: web.Request) -> web.Response:
        return answer(self.service.why(self._name(request)))

    async def checks(self, request: web.Request) -> web.Response:
        """What the last run of the checks found."""
        return answer(self.service.checks(self._name(request)))

    async def cleanup(self, request: web.Request) -> web.Response:
        """What a start would take away now, `clean=true` for one that begins with empty caches."""
        return answer(await self.service.cleanup(self._name(request), parse.truth(request.query, "clean")))

    async def drift(self, request: web.Request) -> web.Response:
        """A comparison made now, `against=known-good|wanted|GENERATION`: it costs the nodes some work, so for operators."""
        await self.gate.writer(request)
        against = parse.against(request.query)
        return answer(await self.service.drifts(self._name(request)).drift(against))

    async def build(self, request: web.Request) -> web.Response:
        """How the image was built, read on every node now."""
        await self.gate.writer(request)
        return answer(await self.service.drifts(self._name(request)).build())

    async def hashes(self, request: web.Request) -> web.Response:
        """Go on hashing the weights on every node, and how far that is; half a core on each while it is asked for."""
        await self.gate.writer(request)
        return answer(await self.service.drifts(self._name(request)).hashes())

    async def known_good(self, request: web.Request) -> web.Response:
        """What worked, as far as it was recorded."""
        return answer(await self.service.drifts(self._name(request)).listing())

    async def record(self, request: web.Request) -> web.Response:
        """One record whole. It holds a deployment file, so it is for operators."""
        await self.gate.writer(request)
        return answer(await self.service.drifts(self._name(request)).show(_generation(request)))

    async def apart(self, request: web.Request) -> web.Response:
        """The differences between two records."""
        other = parse.whole_number(request.match_info, "other", 0, 0, 2**31)
        return answer(await self.service.drifts(self._name(request)).apart(_generation(request), other))

    async def all_checks(self, request: web.Request) -> web.Response:
        return answer(listing(all_checks()))

    async def captures(self, request: web.Request) -> web.Response:
        """What was saved of failed generations."""
        folder = self._saved(request)
        async with self._costly(request):
            return answer(await _aside(lambda: captures.listing(folder)))

    async def capture(self, request: web.Request) -> web.Response:
        folder, generation = self._saved(request), _generation(request)
        async with self._costly(request):
            return json_page(await _aside(lambda: encoded(captures.inspects(folder, generation))))

    async def capture_logs(self, request: web.Request) -> web.Response:
        tail = parse.whole_number(request.query, "tail", 200, 1, 10_000)
        folder, generation = self._saved(request), _generation(request)
        headers = {**HEADERS, "Content-Type": "application/x-ndjson"}
        async with self._costly(request):
            body = await _aside(lambda: b"".join(map(line, captures.lines(folder, generation, tail))))
            return web.Response(body=body, headers=headers)

    def _saved(self, request: web.Request) -> Path:
        return self.service.captures(self._name(request))

    async def operation(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        found = self.service.operation(id)
        if found is None:
            raise NotFound(f"no operation {id[:100]!r} is known", "operations are forgotten when sparkd restarts")
        return answer({"schema": 1, **found})

    # --------------------------------------------------------------------------------------------------------- follow

    async def events(self, request: web.Request) -> web.StreamResponse:
        with self.places.take(peer_id(request.transport)):
            return await relay(request, "text/event-stream", self._events(), b": alive\n\n")

    async def _events(self) -> AsyncGenerator[bytes]:
        yield b"retry: 3000\n\n"
        async with self.service.subscribe() as messages:
            now = self.service.view()
            yield event("status", self.service.shown.picture(now).page.served(now))
            async for message in messages:
                yield message

    async def logs(self, request: web.Request) -> web.StreamResponse:
        name = self._name(request)
        tail = parse.whole_number(request.query, "tail", 200, 1, 10_000)
        follow = parse.truth(request.query, "follow")
        with self.places.take(peer_id(request.transport)):
            return await relay(request, "application/x-ndjson", self._lines(name, tail, follow), b"\n")

    async def _lines(self, name: str, tail: int, follow: bool) -> AsyncGenerator[bytes]:
        lines = self.service.logs(name, tail, follow)
        try:
            async for one in lines:
                yield line(one)
        except SparkdError as error:  # the status was sent long ago: the last line tells
            code, fix = getattr(error, "code", "failed"), getattr(error, "fix", "")
            yield line({"schema": 1, "error": {"code": code, "text": str(error), "fix": fix}})
        finally:
            if isinstance(lines, AsyncGenerator):
                await lines.aclose()

    # ---------------------------------------------------------------------------------------------------------- write

    async def operate(self, request: web.Request) -> web.Response:
        by = await self.gate.writer(request)
        name = self._name(request)
        verb = parse.known_name(request.match_info["verb"], verbs(), "verb")
        raw = await self._body(request)
        operation = parse.operation(raw, verbs()[verb], name, self.service.view().nodes, by)
        id = await self.service.operate(name, verb, operation)
        return answer({"schema": 1, "operation": id}, 202, {"Location": f"/api/v1/operations/{id}"})

    async def check(self, request: web.Request) -> web.Response:
        """Run the checks now. They change nothing, but cost the nodes some work: for those who may write."""
        await self.gate.writer(request)
        return answer(await self.service.check(self._name(request)))

    async def bless(self, request: web.Request) -> web.Response:
        """Pin a record, or what runs now, as what everything is compared with."""
        await self.gate.writer(request)
        generation, note = parse.blessing(await self._body(request))
        return answer(await self.service.drifts(self._name(request)).bless(generation, note))

    async def reload(self, request: web.Request) -> web.Response:
        """Answers when it is done, or refused: a second or so, and at most the loop's own deadlines."""
        by = await self.gate.writer(request)
        message = parse.message(await self._body(request))
        return answer(await self.service.reload(by, message))

    async def _body(self, request: web.Request) -> bytes:
        try:
            with anyio.fail_after(BODY_S):
                return await request.read()
        except TimeoutError:
            raise Invalid(f"the body did not come within {BODY_S:g} s", "send it at once") from None

    def _name(self, request: web.Request) -> str:
        known = (one.name for one in self.service.view().deployments)
        return parse.known_name(request.match_info["name"], known, "deployment")


async def _aside(work: Callable[[], T]) -> T:
    """In a thread: what takes long must not do so on the loop."""
    return await anyio.to_thread.run_sync(work)


def _generation(request: web.Request) -> int:
    return parse.whole_number(request.match_info, "generation", 0, 0, 2**31)
