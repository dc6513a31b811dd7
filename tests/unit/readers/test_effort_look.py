"""When nodes are asked how hard they work, and what their answers become: a costly question, asked seldom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkd.base import clock
from sparkd.base.errors import Late
from sparkd.hosts.client import Probed
from sparkd.model.config import Cluster, Deployment, Health, Node
from sparkd.model.decision import Phase, State, Watch
from sparkd.model.effort import Card, Effort, Efforts, GpuLoad
from sparkd.model.snapshot import Container, Unknown, blind
from sparkd.observe.effort import EffortLook
from sparkd.observe.nodes import NodeLook
from sparkd.observe.unknowns import NodeAccess, Unknowns

NOW = 10_000.0
ONE = Deployment(name="d", engine="vllm", nodes=("a", "b"))
SERVING = State(phase=Phase.SERVE, since=NOW - 5000, generation=1)
SUSPICIOUS = replace(SERVING, watch=Watch(tokens_at=NOW - 500, canary_failing_since=NOW - 300))
FROZEN = replace(SERVING, watch=Watch(tokens_at=NOW - 10, frozen_since=NOW - 5))
QUIET = replace(SERVING, watch=Watch(tokens_at=NOW - 70))
KNOWN = replace(QUIET, waiting_w=(("a", 119.0),))
BUSY = replace(SERVING, watch=Watch(tokens_at=NOW - 5))

PAUSES: dict[str, tuple[State, Deployment, float | None]] = {
    "requests fail": (SUSPICIOUS, ONE, 15.0),
    "no token moves": (FROZEN, ONE, 15.0),
    "nobody asks, and what it draws is not known": (QUIET, ONE, 60.0),
    "nobody asks, and what it draws is known": (KNOWN, ONE, 600.0),
    "what another node draws is known": (replace(KNOWN, waiting_w=(("b", 1.0),)), ONE, 60.0),
    "tokens flow": (BUSY, ONE, None),
    "no token ever moved": (replace(SERVING, watch=Watch()), ONE, 60.0),
    "it starts": (replace(SUSPICIOUS, phase=Phase.WARMUP), ONE, None),
    "only observed": (replace(SUSPICIOUS, phase=Phase.PAUSED), ONE, None),
    "no GPUs": (QUIET, replace(ONE, hardware="cpu"), None),
    "no GPUs, and requests fail": (SUSPICIOUS, replace(ONE, hardware="cpu"), 15.0),
    "canaries every 30 s": (
        replace(SERVING, watch=Watch(tokens_at=NOW - 20)),
        replace(ONE, health=Health(canary_after=30.0)),
        60.0,
    ),
}


@pytest.mark.parametrize(("state", "deployment", "pause"), PAUSES.values(), ids=PAUSES.keys())
def test_how_often_a_node_is_asked(state: State, deployment: Deployment, pause: float | None) -> None:
    look = EffortLook("a")
    assert look.due([deployment], {"d": state}, NOW) == (pause is not None)
    for after in (0.0, 14.9, 15.0, 59.9, 60.0, 599.9, 600.0):
        look.asked(NOW - after)
        assert look.due([deployment], {"d": state}, NOW) == (pause is not None and after >= pause), after


def test_a_node_without_a_figure_of_power_is_asked_seldom() -> None:
    look = EffortLook("a")
    for found in (GpuLoad("missing", "", (), ()), Unknown("late", 0.0)):
        look.load(found)
        look.asked(NOW - 500)
        assert not look.due([ONE], {"d": QUIET}, NOW)
        assert look.due([ONE], {"d": SUSPICIOUS}, NOW)
    look.load(GpuLoad("ok", "", (Card("x", 0.0, 0.0, 119.0, 1980.0, 0),), ()))
    assert look.due([ONE], {"d": QUIET}, NOW)


def test_two_looks_tell_a_rate_unless_too_much_time_or_a_boot_lies_between() -> None:
    def at(seconds: float) -> Effort:
        return Effort(seconds, 100, (), ())

    look = EffortLook("a")
    assert look.efforts(at(100.0)) is None
    assert look.efforts(at(115.0)) == Efforts(at(100.0), at(115.0))
    assert look.efforts(at(115.5)) is None
    assert look.efforts(at(300.0)) is None, "what was done before the trouble is in it"
    assert look.efforts(at(20.0)) is None, "it booted"
    assert look.efforts(at(35.0)) == Efforts(at(20.0), at(35.0))
    why = Unknown("late", 0.0)
    assert look.efforts(why) is why
    assert look.efforts(at(50.0)) is None


class Client:
    """A node service that answers these probes, and remembers what it was asked."""

    def __init__(self, **texts: str) -> None:
        self.texts, self.asked, self.late = texts, list[Mapping[str, Any]](), False

    async def greet(self) -> None:
        pass

    async def probe(self, requests: Mapping[str, Any], deadline_s: float) -> Probed:
        assert deadline_s <= 2.0
        self.asked.append(requests)
        if self.late:
            raise Late("a", "the node service did not answer")
        return Probed({name: text for name, text in self.texts.items() if name in requests}, {})


CLUSTER = Cluster(
    cluster="c", nodes={name: Node(name=name, address="local", data_address="10.0.0.1") for name in ("a", "b")}
)
UNIT = Container("f" * 32, "sparkd-d-0", "d", 0, 1, "us", "spec", "running", runtime="process")
LOADED = "smi ok\ngpu 0, NVIDIA H200, 99 %, 23 %, 690.0 W, 1455 MHz, 0x4\npid 7\n"


def looked_at(client: Client, **options: Any) -> NodeLook:
    access = NodeAccess(client=client, docker=None)  # type: ignore[arg-type]
    return NodeLook("a", CLUSTER, access, "us", Unknowns(), **options)


async def effort_of(look: NodeLook, state: State, deployment: Deployment = ONE) -> Any:
    bare = replace(blind("a", Unknown("x", 0.0)), containers=())
    return await look._with_effort(bare, [deployment], {"d": state}, clock.now() + 4.0, None)


async def test_what_a_node_says_of_its_effort() -> None:
    """A unit's processes carry its name, which every generation has; from here on they carry its id."""
    client = Client(effort="at 100.0 100\ncpu 7 1 sparkd-d-0.service 5 0 python\nnet eth0 1 2\n", gpu_load=LOADED)
    look = looked_at(client, _units=(UNIT,))
    first = await effort_of(look, SUSPICIOUS)
    assert (first.effort, first.gpu.power_w, first.gpu.pids) == (None, 690.0, (7,))
    assert client.asked == [
        {
            "effort": {"containers": [], "units": ["sparkd-d-0.service"], "address": "10.0.0.1"},
            "gpu_load": None,
        }
    ]
    assert (await effort_of(look, SUSPICIOUS)).gpu is None, "not again within 15 s"
    client.texts["effort"] = client.texts["effort"].replace("at 100.0", "at 115.0")
    look._effort.asked(0.0)
    found = await effort_of(look, SUSPICIOUS)
    assert [one.owner for one in found.effort.now.processes] == [UNIT.id]


async def test_what_cannot_be_read_is_unknown_and_a_node_without_gpus_is_not_asked_for_them() -> None:
    client = Client(effort="at 100.0 100\n", gpu_load="gpu rubbish\n")
    found = await effort_of(looked_at(client), SUSPICIOUS)
    assert isinstance(found.gpu, Unknown)
    client.late = True
    found = await effort_of(looked_at(client), SUSPICIOUS)
    assert isinstance(found.effort, Unknown)
    client.late = False
    found = await effort_of(looked_at(client), SUSPICIOUS, replace(ONE, hardware="cpu"))
    assert (found.gpu, list(client.asked[-1])) == (None, ["effort"])
    assert (await effort_of(looked_at(client), BUSY)).effort is None
