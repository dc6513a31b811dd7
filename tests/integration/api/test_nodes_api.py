"""Planned work on nodes and their power over the API: who may, what is refused, and what arrives."""

from __future__ import annotations

from typing import Any

import pytest

from .api_world import running

MAINTENANCE, POWER, CYCLE = (f"/api/v1/nodes/spark2/{one}" for one in ("maintenance", "power", "power-cycle"))


async def test_what_is_asked_of_a_node_arrives_as_it_was_asked() -> None:
    async with running() as place, place.unix() as session:
        for path, body, asked in (
            (MAINTENANCE, {}, ("maintain", "spark2", None, "")),
            (MAINTENANCE, {"for_s": 3600, "message": "x"}, ("maintain", "spark2", 3600.0, "x")),
            (CYCLE, {}, ("power-cycle", "spark2", False, "")),
            (CYCLE, {"force": True, "message": "no SSH"}, ("power-cycle", "spark2", True, "no SSH")),
        ):
            async with session.post(path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                assert (await answer.json())["node"] == "spark2"
            assert place.daemon.nodes.asked[-1] == asked
        async with session.get(POWER) as answer:
            assert (await answer.json())["would"] == "run /srv/cycle"


BAD: list[tuple[str, dict[str, Any] | str, int, str]] = [
    (MAINTENANCE, {"for_s": 0}, 400, "for_s cannot be used"),
    (MAINTENANCE, {"for_s": "1h"}, 400, "for_s cannot be used"),
    (MAINTENANCE, {"for_s": True}, 400, "for_s cannot be used"),
    (MAINTENANCE, {"end": 1}, 400, "end cannot be used"),
    (MAINTENANCE, {"end": True, "for_s": 5}, 400, "for_s does not go with end"),
    (MAINTENANCE, {"until": 5}, 400, "unknown key 'until'"),
    (MAINTENANCE, {"end": True}, 409, "spark2 is not under maintenance"),
    (CYCLE, {"force": "yes"}, 400, "force cannot be used"),
    (CYCLE, {"node": "spark1"}, 400, "unknown key 'node'"),
    ("/api/v1/nodes/spark3/power-cycle", {}, 404, "no node is called 'spark3'"),
    ("/api/v1/nodes/spark3/maintenance", {}, 404, "no node is called 'spark3'"),
]


@pytest.mark.parametrize(("path", "body", "status", "text"), BAD)
async def test_what_makes_no_sense_is_refused_in_words(path: str, body: Any, status: int, text: str) -> None:
    async with running() as place, place.unix() as session, session.post(path, json=body) as answer:
        assert answer.status == status
        assert text in (await answer.json())["error"]["text"]
        assert place.daemon.nodes.asked == []


async def test_a_listener_that_is_read_only_takes_no_power_and_tells_nobody_how_it_would() -> None:
    async with running() as place, place.tcp() as session:
        for path in (CYCLE, MAINTENANCE):
            async with session.post(path, json={}) as answer:
                assert answer.status == 403
        async with session.get(POWER) as answer:
            assert answer.status == 403
        assert place.daemon.nodes.asked == []
