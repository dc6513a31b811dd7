"""An API that listens beyond loopback and answers without a key is told, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_world import CLUSTER, SPARK1, SPARK2, said, scene, trouble, view

from sparkd.checks import open_endpoint
from sparkd.checks.shared.scene import Answer, Page, Place, Scene
from sparkd.facts.sockets import SOCKETS
from sparkd.model.check import Level, Status
from sparkd.model.machine import Socket
from sparkd.model.snapshot import Unknown

CHECK = open_endpoint.CHECK
ASK = Page(SPARK1, Place("api", "http://127.0.0.1:8000"), "/v1/models")


def listening(address: str, port: int = 8000, state: str = "LISTEN") -> Socket:
    return Socket(state, address, port, "0.0.0.0", 0, 0, 0, 1, 500)


def at(*sockets: Socket, answer: Answer = "200", running: bool = True) -> Scene:
    return scene({SOCKETS: {SPARK1: sockets, SPARK2: ()}}, view(SPARK1), answers={ASK: answer}, running=running)


def test_it_names_address_and_port_and_both_ways_out() -> None:
    [found] = trouble(CHECK, at(listening("0.0.0.0")))
    assert found.text == (
        "the API on 0.0.0.0:8000 of spark1 answers without a key: every client there may use the model"
    )
    assert (found.node, found.rank) == (SPARK1, 0)
    assert found.fix == (
        "in demo.yaml: `args: {host: 127.0.0.1}` and a router before it, or "
        "write `secrets: {VLLM_API_KEY: {file: /etc/sparkd/api_key}}`: secrets are references"
    )
    assert found.evidence == ("LISTEN 0.0.0.0:8000", "GET /v1/models without a key: HTTP 200")
    assert CHECK.level is Level.WARN


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.11", "10.0.0.1", "::ffff:192.168.1.11", "fe80::1"])
def test_every_address_but_loopback_is_open(address: str) -> None:
    assert len(said(CHECK, at(listening("127.0.0.1"), listening(address)))) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_not_even_asked(address: str) -> None:
    assert list(open_endpoint.asks(at(listening(address)))) == []
    assert said(CHECK, at(listening(address))) == []


@pytest.mark.parametrize("answer", ["401", "403", "404", "503"])
def test_an_engine_that_refuses_strangers_is_well(answer: str) -> None:
    assert said(CHECK, at(listening("0.0.0.0"), answer=answer)) == []


@pytest.mark.parametrize(
    "scenes",
    [
        at(listening("0.0.0.0"), running=False),
        at(),
        at(listening("0.0.0.0", 9000)),
        at(listening("0.0.0.0", state="CLOSE_WAIT")),
    ],
    ids=["does not run", "does not listen", "another port", "no listener"],
)
def test_what_does_not_run_or_listen_is_not_open(scenes: Scene) -> None:
    assert list(open_endpoint.asks(scenes)) == []
    assert said(CHECK, scenes) == []


def test_what_could_not_be_asked_is_unknown_and_no_trouble() -> None:
    [(node, status, text)] = said(CHECK, at(listening("0.0.0.0"), answer=Unknown("no answer in time", 0.0)))
    assert (node, status) == (SPARK1, str(Status.UNKNOWN))
    assert "/v1/models: no answer in time" in text


def test_a_head_on_another_node_is_asked_at_its_address_and_has_one_way_out() -> None:
    other = replace(at(listening("0.0.0.0")), deployment=replace(at().deployment, nodes=(SPARK2, SPARK1)))
    ask = Page(SPARK2, Place("api", "http://192.168.1.12:8000"), "/v1/models")
    other = replace(other, facts={(SPARK2, SOCKETS.name): (listening("0.0.0.0"),)}, answers={ask: "200"})
    assert list(open_endpoint.asks(other)) == [ask]
    assert [one.fix for one in trouble(CHECK, other) if one.status is Status.FAIL] == [
        "in demo.yaml: write `secrets: {VLLM_API_KEY: {file: /etc/sparkd/api_key}}`: secrets are references"
    ]
    assert CLUSTER.nodes[SPARK2].address == "192.168.1.12"
