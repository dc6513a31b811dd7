"""What one node, rank or engine prints costs what is read from it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread, get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from sparkd.act.asked import AskedEngines
from sparkd.background import engine_words
from sparkd.base.bounded_bytes import SMALL_CHARS
from sparkd.base.unread import bounded
from sparkd.decide.evidence import progressed
from sparkd.engines import ENGINES
from sparkd.engines.base import Variables
from sparkd.facts import Fact, memory, units
from sparkd.hosts.client import Probed
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.decision import State, Watch
from sparkd.model.printed import Unread
from sparkd.model.snapshot import EngineMetrics, EngineView, Unknown
from sparkd.observe import survey
from sparkd.observe.engine import EngineLook
from sparkd.observe.unknowns import Reader, Unknowns


def test_a_refusal_is_a_sentence_and_a_bug_is_one_too_and_is_logged_once() -> None:
    assert bounded("meminfo", memory.parse, "MemTotal: x kB\n") == Unread(
        "unreadable meminfo: unexpected line 'MemTotal: x kB'"
    )

    def bug(_: str) -> int:
        raise RecursionError("too deep")

    with structlog.testing.capture_logs() as logged:
        found = [bounded("a fact of the test", bug, "") for _ in range(3)]
    assert found == [Unread("unreadable a fact of the test: RecursionError, a bug in sparkd, see its log")] * 3
    assert [one["what"] for one in logged] == ["a fact of the test"]
    assert bounded("what goes well", int, "3") == 3


async def test_one_probe_that_cannot_be_read_leaves_the_others() -> None:
    texts = {"meminfo": f"MemTotal: {'9' * 5000} kB\n", "units": "Now=1\n"}
    read = Reader(Unknowns(), "spark1", Probed(texts, {}), None)
    found = await read(memory.MEMINFO)
    assert isinstance(found, Unknown)
    assert found.why.startswith("unreadable meminfo: unexpected line")
    assert len(found.why) < 200
    assert await read(units.UNITS) == ()


LONG = "x" * (SMALL_CHARS + 1)
"""What a node with fifty thousand connections, or an engine that means harm, has to say."""


async def test_what_a_node_prints_at_length_is_read_beside_the_loop() -> None:
    """A table of half a million processes held up the loop for four seconds."""
    read = Reader(Unknowns(), "spark1", Probed({"long": LONG, "short": "x"}, {}), None)
    long, short = (Fact(name, lambda text: get_ident()) for name in ("long", "short"))
    found = [await read(long), await survey._parsed(long, LONG)]
    assert get_ident() not in found
    assert await read(short) == get_ident()


async def test_long_logs_and_pages_of_an_engine_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two MiB of numbers on one page held up the loop for a second."""
    read: dict[str, int] = {}

    class Engine:
        pages = ("/version",)
        variables = Variables()

        def __getattr__(self, name: str) -> Any:
            def reader(*_: Any) -> dict[str, Any]:
                read[name] = get_ident()
                return {}

            return reader

    monkeypatch.setitem(ENGINES, "vllm", Engine())

    async def log(*_: Any) -> list[str]:
        return [LONG]

    monkeypatch.setattr(EngineLook, "_log", log)
    head = SimpleNamespace(deployment="d", rank=0, generation=1)
    views: Any = {"a": SimpleNamespace(ranks=(head,), processes=(), boot=Unknown("not read", 0.0))}
    look: Any = LOOK
    await look._findings(DEPLOYMENT, State(generation=1), views)
    await look._stage(DEPLOYMENT, head, views, 200)
    scene: Any = SimpleNamespace(deployment=DEPLOYMENT, cluster=look.cluster)
    with serving(f'"{LONG}"') as base:
        monkeypatch.setattr(engine_words, "base_url", lambda *_: base)
        await engine_words.EngineWords({}, AskedEngines(lambda name: scene))._pages(scene, {}, {})
    assert set(read) == {"findings", "stage", "page"}
    assert get_ident() not in read.values()


@contextmanager
def serving(page: str) -> Iterator[str]:
    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Engine)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


DEPLOYMENT = Deployment(name="d", engine="vllm", nodes=("a",))
LOOK = EngineLook(Cluster(cluster="c", nodes={"a": Node(name="a", address="local")}), {}, Unknowns())
TOKENS = "vllm:generation_tokens_total"


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e308", "9" * 5000])
async def test_a_counter_that_is_no_number_is_unknown_to_the_loop(value: str) -> None:
    with serving(f'{TOKENS}{{engine="0"}} 5\n{TOKENS}{{engine="1"}} {value}\n') as base:
        found = await LOOK._metrics(base, DEPLOYMENT)
    assert isinstance(found, Unknown)
    assert (found.why.startswith(TOKENS), found.code) == (True, "unreadable")


async def test_no_token_moves_while_a_counter_comes_and_goes() -> None:
    """A stalled engine whose page says `nan` at every other look is still stalled."""
    watch = Watch(canary_failing_since=1.0, canary_failures=1)
    for at, value in enumerate(["5", "NaN", "5", "NaN", "5"]):
        with serving(
            f'{TOKENS}{{engine="0"}} 7\n{TOKENS}{{engine="1"}} {value}\nvllm:num_requests_running 1\n'
        ) as base:
            metrics = await LOOK._metrics(base, DEPLOYMENT)
        assert isinstance(metrics, Unknown if value == "NaN" else EngineMetrics)
        case = _Case(EngineView(200, metrics), float(at))
        watch = progressed(case, watch)  # type: ignore[arg-type]
    assert (watch.canary_failing_since, watch.frozen_since, watch.tokens_at) == (1.0, 2.0, None)


class _Case:
    """The two parts of a case that progress is told by."""

    def __init__(self, view: EngineView, now: float) -> None:
        self.view, self.now = view, now
