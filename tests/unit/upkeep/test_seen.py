"""What a look shows of a node that shuts down, and of one that is silent: real looks, with a node service of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import pytest

from sparkd.base.errors import HostError, Late, Silent, Unreachable
from sparkd.decide.hardware import answers_pings_alone
from sparkd.hosts.client import NodeClient, Probed
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.decision import Phase, State
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown
from sparkd.model.upkeep import Echo
from sparkd.observe import NodeAccess, Observer
from sparkd.observe.echoes import Echoes
from sparkd.runtimes.runtime import Runtime

NODES = {
    "spark1": Node(name="spark1", address="local", data_address="10.0.0.1"),
    "spark2": Node(name="spark2", address="192.168.1.12", data_address="10.0.0.2"),
}
CLUSTER = Cluster(cluster="desk", nodes=NODES)
DEMO = Deployment(name="demo", engine="vllm", nodes=("spark1", "spark2"), image="vllm:1")
TEXTS = {
    "boot": "boot_id b1\npid1_ticks 10\nuptime_s 1000.0\nhostname spark1\nclk_tck 100\nnow 1700000000.0\n",
    "docker": "running 1 5\n",
    "system": "running\n",
}


class Service:
    """A node service that is asked like the real one. `says`: name of a probe -> its text, or what makes one of its arguments."""

    def __init__(self, says: Mapping[str, str | Callable[[Any], str]], error: HostError | None = None) -> None:
        self.says, self.error, self.asked = says, error, list[str]()

    async def greet(self, deadline_s: float = 3.0) -> None:
        if self.error is not None:
            raise self.error

    async def probe(self, requests: Mapping[str, Any], deadline_s: float) -> Probed:
        await self.greet()
        self.asked += requests
        found = {name: self.says[name] for name in requests if name in self.says}
        return Probed(
            {name: said if isinstance(said, str) else said(requests[name]) for name, said in found.items()}, {}
        )


class Docker:
    def __init__(self, *containers: Container) -> None:
        self.listed = containers

    async def containers(self) -> tuple[Container, ...]:
        return self.listed


def access(service: Service, *containers: Container) -> NodeAccess:
    return NodeAccess(cast(NodeClient, service), cast(Runtime, Docker(*containers)))


def rank(state: str) -> Container:
    return Container(
        "c1", "sparkd-demo-0", "demo", 0, 1, "us", "x", state, exit_code=143 if state == "exited" else None
    )


async def look(first: Service, second: Service, *containers: Container) -> Snapshot:
    nodes = {"spark1": access(first, *containers), "spark2": access(second)}
    return await Observer(CLUSTER, nodes, "us").look([DEMO], {"demo": State(phase=Phase.SERVE)})


@pytest.mark.parametrize(("state", "seen"), [("exited", "stopping"), ("running", "running")])
async def test_a_shutdown_that_begins_within_a_look_is_seen_where_a_rank_ended_by_it(state: str, seen: str) -> None:
    """systemd says `running`, then a person reboots the node, then Docker lists a rank that has ended: no failure of the rank."""
    words = iter(["running\n", "stopping\n"])
    service = Service({**TEXTS, "system": lambda _: next(words)})
    snapshot = await look(service, Service(TEXTS), rank(state))
    assert snapshot.nodes["spark1"].system == seen
    assert service.asked.count("system") == (2 if state == "exited" else 1), (
        "it is asked again where it matters, no more"
    )


GONE = Silent("spark2", "timed out: 192.168.1.12 does not answer")


def pings(**answers: str) -> Callable[[Any], str]:
    """By the last number of an address."""
    return lambda args: "".join(f"{one} {answers['n' + one.rpartition('.')[2]]}\n" for one in args["addresses"])


HEARD: list[tuple[dict[str, str], set[tuple[str, bool | None]]]] = [
    ({"n12": "ok 0.3", "n2": "lost"}, {("lan", True), ("fabric", False)}),
    ({"n12": "lost", "n2": "lost"}, {("lan", False), ("fabric", False)}),
    ({"n12": "error [Errno 113] No route to host", "n2": "lost"}, {("lan", False), ("fabric", False)}),
    # Our own side is down, or may not send: no witness.
    ({"n12": "error [Errno 101] Network is unreachable", "n2": "lost"}, {("lan", None), ("fabric", False)}),
    ({"n12": "error [Errno 1] Operation not permitted", "n2": "lost"}, {("lan", None), ("fabric", False)}),
]


@pytest.mark.parametrize(("answers", "heard"), HEARD)
async def test_a_silent_node_is_pinged_on_both_networks(
    answers: dict[str, str], heard: set[tuple[str, bool | None]]
) -> None:
    snapshot = await look(Service({**TEXTS, "ping": pings(**answers)}), Service({}, GONE), rank("running"))
    boot = snapshot.nodes["spark2"].boot
    assert isinstance(boot, Unknown)
    assert (boot.silent, boot.code) == (True, "unreachable")
    assert {(one.network, one.answered) for one in snapshot.echoes["spark2"]} == heard
    assert {one.by for one in snapshot.echoes["spark2"]} == {"spark1"}
    assert (answers_pings_alone(snapshot, "spark2") is not None) is (("lan", True) in heard)


@pytest.mark.parametrize(
    "error", [Unreachable("spark2", "connection refused"), Late("spark2", "the node service did not answer")]
)
async def test_a_node_that_said_something_is_not_silent_and_nobody_is_asked_about_it(error: HostError) -> None:
    first = Service({**TEXTS, "ping": pings(n12="ok 1.0", n2="ok 1.0")})
    snapshot = await look(first, Service({}, error), rank("running"))
    boot = snapshot.nodes["spark2"].boot
    assert isinstance(boot, Unknown)
    assert (boot.silent, snapshot.echoes) == (False, {})
    assert first.asked.count("ping") == 1, "the peers' own ping, as in every look"


async def test_a_witness_that_answers_nothing_or_nonsense_is_none() -> None:
    for odd in (Service({**TEXTS, "ping": "nonsense\n"}), Service(TEXTS)):
        snapshot = await look(odd, Service({}, GONE), rank("running"))
        assert {one.answered for one in snapshot.echoes["spark2"]} == {None}


async def test_the_address_behind_a_name_is_known_from_when_its_node_was_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """`spark2.local` is told by the box itself: once it is gone, so is its name."""
    asked: list[str] = []

    async def resolve(name: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(name)
        if len(asked) > 1:
            raise OSError("no such name")
        return [(2, 1, 6, "", ("192.168.1.12", 0))]

    monkeypatch.setattr(anyio, "getaddrinfo", resolve)
    named = Cluster(cluster="desk", nodes={**NODES, "spark2": Node(name="spark2", address="spark2.local")})
    first = Service({**TEXTS, "ping": pings(n12="ok 0.3")})
    echoes = Echoes(named, {"spark1": access(first), "spark2": access(Service(TEXTS))})
    well = NodeView("spark2", *[()] * 7)  # type: ignore[arg-type]
    gone = NodeView("spark2", *[Unknown("timed out", 0.0, silent=True)] * 7)
    found: dict[str, tuple[Echo, ...]] = {}
    await echoes.look({"spark1": well, "spark2": well}, found)
    assert (found, asked) == ({}, ["spark2.local"])
    await echoes.look({"spark1": well, "spark2": gone}, found)
    assert found == {"spark2": (Echo("spark1", "lan", True),)}
    assert asked == ["spark2.local"], "what is known is not asked for while the node is away"
