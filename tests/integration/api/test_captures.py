"""What the daemon saved before a teardown, as the real action writes it, comes back over the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparkd.act.capture import capture
from sparkd.act.hands import Hands
from sparkd.model.action import CaptureEvidence, Target
from sparkd.model.config import Cluster
from sparkd.runtimes.logs import LogLine

from .api_world import DS4, NODES, Daemon, running

AT = 1.7e9


class Saved:
    """A runtime of which nothing is asked but what is saved."""

    def __init__(self, rank: int, more: tuple[str, ...] = ()) -> None:
        self.rank, self.more = rank, more

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        steps = (f"rank {self.rank}  step {step}" for step in range(3))
        return tuple(LogLine(AT + 2 * at + self.rank, "stderr", text) for at, text in enumerate((*steps, *self.more)))

    async def inspect(self, container_id: str) -> dict[str, Any]:
        return {"Id": container_id, "State": {"ExitCode": 137}}


async def save(folder: Path, generation: int) -> None:
    runtimes: Any = {node: {"docker": Saved(rank)} for rank, node in enumerate(NODES)}
    cluster = Cluster(cluster="desk", nodes=NODES)
    hands = Hands(cluster, DS4, "owner", runtimes, {}, folder)
    targets = tuple(Target(node, f"{rank}abc", rank, generation) for rank, node in enumerate(NODES))
    await capture(hands, CaptureEvidence(generation, targets, "failed"))


ACCESS = 'INFO:     127.0.0.1:50412 - "{} HTTP/1.1" {}'


async def test_the_last_words_are_no_requests_that_were_answered(tmp_path: Path) -> None:
    answered = [ACCESS.format("POST /v1/chat/completions", "200 OK")] * 5
    looks = [ACCESS.format("GET /health", "503 Service Unavailable")] * 5
    failed = ACCESS.format("POST /v1/chat/completions", "500 Internal Server Error")
    runtimes: Any = {"spark1": {"docker": Saved(0, (*answered, failed, *looks))}}
    hands = Hands(Cluster(cluster="desk", nodes=NODES), DS4, "owner", runtimes, {}, tmp_path)
    told = await capture(hands, CaptureEvidence(7, (Target("spark1", "0abc", 0, 7),), "failed"))
    assert told["last"] == {"rank 0 on spark1": [*(f"rank 0  step {step}" for step in range(3)), failed]}


async def test_what_is_saved_is_listed_and_read(tmp_path: Path) -> None:
    await save(tmp_path, 7)
    await save(tmp_path, 8)
    async with running(Daemon(saved=tmp_path)) as place, place.unix() as session:
        found = await (await session.get("/api/v1/deployments/ds4-flash/captures")).json()
        log = await (await session.get("/api/v1/deployments/ds4-flash/captures/8/logs?tail=4")).text()
        one = await (await session.get("/api/v1/deployments/ds4-flash/captures/7")).json()
    assert (found["schema"], found["folder"]) == (1, str(tmp_path / "ds4-flash"))
    assert sorted((each["generation"], each["reason"], len(each["ranks"])) for each in found["captures"]) == [
        (7, "failed", 2),
        (8, "failed", 2),
    ]
    lines = [json.loads(line) for line in log.splitlines()]
    assert [(line["schema"], line["rank"], line["node"], line["stream"]) for line in lines] == [
        (1, 0, "spark1", "stderr"),
        (1, 1, "spark2", "stderr"),
        (1, 0, "spark1", "stderr"),
        (1, 1, "spark2", "stderr"),
    ]
    assert [line["text"] for line in lines] == ["rank 0  step 1", "rank 1  step 1", "rank 0  step 2", "rank 1  step 2"]
    assert lines[0]["at"] == "2023-11-14T22:13:22.000Z"
    assert [(rank["node"], rank["inspect"]["Id"]) for rank in one["ranks"]] == [("spark1", "0abc"), ("spark2", "1abc")]


async def test_what_is_not_saved_is_said_with_what_is(tmp_path: Path) -> None:
    await save(tmp_path, 7)
    (tmp_path / "ds4-flash" / "notes").mkdir()  # a person's, in between
    async with running(Daemon(saved=tmp_path)) as place, place.unix() as session:

        async def ask(path: str) -> tuple[int, dict[str, Any]]:
            answer = await session.get(f"/api/v1/deployments/{path}")
            return answer.status, await answer.json()

        assert await ask("qwen/captures") == (200, {"schema": 1, "folder": str(tmp_path / "qwen"), "captures": []})
        for path in ("ds4-flash/captures/9", "ds4-flash/captures/9/logs"):
            code, body = await ask(path)
            assert (code, body["error"]["fix"]) == (404, "there is: 7")
        for path, expected in (
            ("ds4-flash/captures/x", 400),
            ("nobody/captures", 404),
            ("ds4-flash/captures/-1/logs", 400),
        ):
            assert (await ask(path))[0] == expected


async def test_every_line_of_a_stream_carries_the_schema(tmp_path: Path) -> None:
    daemon = Daemon()
    async with running(daemon) as place, place.unix() as session:
        stream = await session.get("/api/v1/events")
        heard: list[dict[str, Any]] = []
        async for raw in stream.content:
            if raw.startswith(b"event: status"):
                daemon.hub.publish("event", {"kind": "started"})
            if raw.startswith(b"data: "):
                heard.append(json.loads(raw.removeprefix(b"data: ")))
            if len(heard) == 2:
                break
        stream.close()
    assert [one["schema"] for one in heard] == [1, 1]
    assert heard[1]["kind"] == "started"
