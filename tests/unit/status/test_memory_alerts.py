"""Where memory runs out or drains: in the status of that node, in the verdict, in the metrics, in `why`, and told once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from status_world import SERVING, WALL, view

from sparkd.model.decision import State
from sparkd.model.memory_trail import MemoryEpisode
from sparkd.reporting.memory_alerts import also, memory_alerts
from sparkd.reporting.metrics import PARTS
from sparkd.reporting.notices import Notification, edges
from sparkd.reporting.status import status

LOW = MemoryEpisode("low", "spark2", WALL - 60, 900 << 20, "spark2 runs out of memory: 900 MiB available", "end it")
DRAIN = MemoryEpisode("drain", "spark2", WALL - 3600, 7 << 30, "spark2 loses memory while idle", "look")
SHORT = replace(SERVING, memory=(LOW, DRAIN))


def shown(state: State) -> dict[str, Any]:
    return status(view(state))


def told(*statuses: dict[str, Any]) -> list[Notification]:
    return [note for before, after in pairwise(statuses) for note in edges(before, after)]


def test_a_node_says_since_when_and_what_takes_it() -> None:
    spark1, spark2 = shown(SHORT)["nodes"]
    assert spark1["memory_alerts"] == []
    assert spark2["memory_alerts"] == [
        {"kind": "low", "since": "2027-01-15T07:59:00Z", "text": LOW.text, "fix": "end it", "acted": False},
        {"kind": "drain", "since": "2027-01-15T07:00:00Z", "text": DRAIN.text, "fix": "look", "acted": False},
    ]
    assert f"{LOW.text}." in shown(SHORT)["verdict"]
    assert shown(SHORT)["deployments"][0]["serving"], "it is said, and it serves"


def test_two_deployments_on_a_node_make_one_alert_of_each_kind_by_who_told_it_first() -> None:
    later = replace(LOW, since_wall=WALL - 10, text="later")
    states = {"a": replace(SERVING, memory=(later,)), "b": replace(SERVING, memory=(LOW,))}
    assert [one["text"] for one in memory_alerts(states, "spark2")] == [LOW.text]


def test_each_is_told_once_about_its_node() -> None:
    one, two = told(shown(SERVING), shown(replace(SERVING, memory=(LOW,))), shown(SHORT), shown(SHORT), shown(SERVING))
    assert (one.kind, one.node, one.deployment, one.cls, one.signature) == (
        "memory",
        "spark2",
        None,
        "resource",
        "memory-low",
    )
    assert (one.sentence, one.fix) == (f"{LOW.text}.", "end it")
    assert two.signature == "memory-drain"


def test_a_group_that_was_stopped_for_it_is_down_and_not_told_twice() -> None:
    stopped = replace(SERVING, memory=(replace(LOW, acted=True),))
    assert told(shown(SERVING), shown(stopped)) == []


def test_a_status_of_an_earlier_sparkd_knew_no_alerts() -> None:
    before = shown(SERVING)
    for node in before["nodes"]:
        del node["memory_alerts"]
    assert [note.kind for note in told(before, shown(SHORT))] == ["memory", "memory"]


def test_why_names_it_beside_the_last_failure() -> None:
    first, second = also(SHORT)
    assert (first["class"], first["signature"], first["text"], first["fix"]) == (
        "resource",
        "memory-low",
        LOW.text,
        "end it",
    )
    assert first["evidence"] == [{"source": "spark2", "line": None, "text": "since 2027-01-15T07:59:00Z"}]
    assert second["signature"] == "memory-drain"
    assert also(SERVING) == []


def test_the_metric_is_one_while_it_lasts() -> None:
    seen = view(replace(SERVING, memory=(LOW,)))
    families = [one for part in PARTS for one in part(seen, status(seen))]
    (alerts,) = (one for one in families if one.name == "sparkd_node_memory_alert")
    found = {(one.labels["node"], one.labels["kind"]): one.value for one in alerts.samples}
    assert found == {
        ("spark1", "low"): 0.0,
        ("spark1", "drain"): 0.0,
        ("spark2", "low"): 1.0,
        ("spark2", "drain"): 0.0,
    }
