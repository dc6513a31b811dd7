"""What everybody may read is rendered once for each state of affairs; what time alone changes is of the moment of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest

from sparkd.api.routes import STALE_S
from sparkd.model.decision import Intent
from sparkd.model.view import ClusterView
from sparkd.model.words import rfc3339
from sparkd.reporting import copies, exporter
from sparkd.reporting.status import status

from .api_world import Daemon, Place, a_view, running
from .test_api import next_event
from .test_metrics import samples

PATHS = ("/metrics", "/api/v1/status", "/api/v1/nodes", "/ready/ds4-flash")
FORMATS = ("", "application/openmetrics-text", "text/plain;version=1.0.0", "application/openmetrics-text;version=9.{}")


@dataclass
class Still:
    """A daemon that looks no more: time goes on, and nothing else."""

    seen: ClusterView = field(default_factory=a_view)
    passed_s: float = 0.0

    def __call__(self) -> ClusterView:
        seen, passed = self.seen, self.passed_s
        daemon = replace(seen.daemon, loop_age_s=seen.daemon.loop_age_s + passed)
        return replace(seen, at=seen.at + passed, wall=seen.wall + passed, daemon=daemon)


@dataclass
class Made:
    """How often something was made."""

    count: int = 0

    def counting(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*words: Any) -> Any:
            self.count += 1
            return make(*words)

        return made


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    monkeypatch.setattr(copies, "status", made.counting(status))
    return made


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    monkeypatch.setattr(exporter, "_rendered", made.counting(exporter._rendered))
    return made


async def get(session: aiohttp.ClientSession, path: str, **headers: str) -> str:
    async with session.get(path, headers=headers) as answer:
        return await answer.text()


async def ages(place: Place) -> dict[str, float]:
    """Every age that is shown anywhere, by where it stands."""
    async with place.tcp() as session, session.get("/api/v1/events") as events:
        shown = [json.loads(await get(session, "/api/v1/status")), (await next_event(events))[1]]
        metrics = samples(await get(session, "/metrics"))
        found = {"healthz": json.loads(await get(session, "/healthz"))["loop_age_s"]}
    for where, one in zip(("status", "events"), shown, strict=True):
        found[f"{where} loop"] = one["daemon"]["loop_age_s"]
        ranks = [rank for deployment in one["deployments"] for rank in deployment["ranks"]]
        found |= {f"{where} rank {number}": rank["evidence_age_s"] for number, rank in enumerate(ranks)}
    return found | {name: age for name, age in metrics.items() if "_age_seconds" in name}


async def test_any_number_of_readers_between_two_looks_costs_one_rendering(statuses: Made, pages: Made) -> None:
    still = Still()
    async with running(Daemon(look=still)) as place, place.tcp() as remote, place.unix() as local:
        for number in range(20):
            still.passed_s = number / 10
            for session in (remote, local):
                for path in PATHS:
                    for accept in FORMATS:
                        await get(session, path, Accept=accept.format(number))
        assert (statuses.count, pages.count) == (1, 2)  # two formats, whatever versions a client makes up
        assert still.seen.snapshot is not None
        still.seen = replace(still.seen, snapshot=replace(still.seen.snapshot, at=still.seen.at))  # a look
        assert samples(await get(remote, "/metrics"))["sparkd_snapshot_age_seconds{}"] == pytest.approx(1.9)
        assert (statuses.count, pages.count) == (2, 3)


@pytest.mark.parametrize("passed_s", [3.0, 3000.0])
async def test_a_loop_that_stands_still_shows_in_every_age_of_every_page(passed_s: float, statuses: Made) -> None:
    still = Still()
    async with running(Daemon(look=still)) as place:
        before = await ages(place)
        assert len(before) == 13
        still.passed_s = passed_s
        after = await ages(place)
        assert {name: after[name] - age for name, age in before.items()} == pytest.approx(
            dict.fromkeys(before, passed_s), abs=0.11
        )
        assert statuses.count == (1 if passed_s < still.seen.daemon.period_s else 2)
        async with place.tcp() as session:
            async with session.get("/healthz") as answer:
                assert answer.status == (200 if passed_s < STALE_S else 503)
            async with session.get("/ready/ds4-flash") as answer:
                assert answer.status == (200 if passed_s < STALE_S else 503)
            shown = json.loads(await get(session, "/api/v1/status"))
        assert shown["at"] == rfc3339(still.seen.wall + passed_s)
        assert ("has not looked for 50 min" in shown["verdict"]) is (passed_s == 3000)
        assert "ds4-flash is serving" in shown["verdict"]


async def test_what_is_counted_and_what_is_wanted_is_told_before_the_next_look() -> None:
    still = Still()
    async with running(Daemon(look=still)) as place, place.unix() as session:
        name = 'sparkd_group_starts_total{"cause": "boot", "deployment": "ds4-flash"}'
        for starts in (1, 2):
            place.counters.started("ds4-flash", "boot")
            assert samples(await get(session, "/metrics"))[name] == starts
        assert json.loads(await get(session, "/api/v1/status"))["deployments"][0]["wanted"] == "up"
        still.seen = replace(still.seen, intents={**still.seen.intents, "ds4-flash": Intent(wanted="stopped")})
        assert json.loads(await get(session, "/api/v1/status"))["deployments"][0]["wanted"] == "stopped"


async def test_numbers_that_look_like_blanks_are_left_as_they_are() -> None:
    still = Still(replace(a_view(), cluster="1.23456789012345e-286"))
    async with running(Daemon(look=still)) as place, place.tcp() as session:
        shown = json.loads(await get(session, "/api/v1/status"))
        assert shown == status(still())
