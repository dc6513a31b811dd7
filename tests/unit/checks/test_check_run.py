"""What troubles, unread facts and silence become: one row for every check and node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkd.checks.shared import run
from sparkd.checks.shared.scene import HOST, Ask, Check, Look, Scene, Trouble
from sparkd.facts import Fact
from sparkd.model.check import Level, Status
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.snapshot import Unknown

NODES = {name: Node(name=name, address="local") for name in ("spark1", "spark2")}
DEPLOYMENT = Deployment(name="demo", engine="vllm", nodes=("spark1", "spark2"))
LOAD = Fact("load", float)
SCENE = Scene(
    cluster=Cluster(cluster="desk", nodes=NODES),
    deployment=DEPLOYMENT,
    owner="us",
    running=False,
    nodes={},
    facts={("spark1", "load"): 0.5, ("spark2", "load"): 9.0},
)
GHOST = Look("spark2", HOST, "/opt/start.sh")


def busy(scene: Scene) -> Iterator[Trouble]:
    for node, load in scene.each(LOAD):
        if load > 1:
            yield Trouble(node, f"load {load} on {node}", "wait")


def ask(scene: Scene) -> Iterator[Ask]:
    yield GHOST


def ghost(scene: Scene) -> Iterator[Trouble]:
    if scene.missing(GHOST):
        yield Trouble("spark2", "a ghost", "write it", mild=True)


BUSY = Check(code="busy", order=1, level=Level.FAIL, description="d", evaluate=busy, needs=(LOAD,))
ASKING = Check(code="ghost", order=2, level=Level.FAIL, description="d", evaluate=ghost, asks=ask)


def rows(check: Check, scene: Scene = SCENE, **said: str) -> list[tuple[str | None, Status]]:
    return [(one.node, one.status) for one in run.evaluate([check], scene, said)]


def test_every_node_has_a_row_and_the_worst_comes_first() -> None:
    assert rows(BUSY) == [("spark2", Status.FAIL), ("spark1", Status.OK)]


def test_the_configuration_says_how_much_it_matters() -> None:
    assert rows(BUSY, busy="warn") == [("spark2", Status.WARN), ("spark1", Status.OK)]
    assert rows(replace(BUSY, level=Level.WARN), busy="fail")[0] == ("spark2", Status.FAIL)


def test_what_could_not_be_read_is_neither_well_nor_wrong() -> None:
    scene = replace(SCENE, facts={("spark1", "load"): 0.5, ("spark2", "load"): Unknown("no answer in 8 s", 0.0)})
    found = run.evaluate([BUSY], scene, {})
    assert [(one.node, one.status) for one in found] == [("spark2", Status.UNKNOWN), ("spark1", Status.OK)]
    assert found[0].text == "cannot be checked: no answer in 8 s"


@pytest.mark.parametrize(
    ("answer", "status"),
    [("missing", Status.WARN), ("file", Status.OK), (Unknown("mute", 0.0), Status.UNKNOWN)],
)
def test_questions_that_follow_from_facts(answer: str | Unknown, status: Status) -> None:
    assert run.asks([ASKING], SCENE) == {GHOST}
    assert dict(rows(ASKING, replace(SCENE, answers={GHOST: answer})))["spark2"] is status


def test_trouble_with_the_deployment_itself_stands_for_all_nodes() -> None:
    everywhere = replace(BUSY, evaluate=lambda scene: iter([Trouble(None, "t", "f")]), needs=())
    assert rows(everywhere) == [(None, Status.FAIL)]


def test_a_check_that_is_off_or_does_not_apply_costs_nothing() -> None:
    elsewhere = replace(BUSY, applies=lambda deployment: deployment.runtime == "process")
    assert run.chosen([BUSY, elsewhere], DEPLOYMENT, {}) == [BUSY]
    assert run.chosen([BUSY], DEPLOYMENT, {"busy": "off"}) == []


def test_the_deployments_file_goes_over_the_clusters() -> None:
    cluster = replace(SCENE.cluster, checks={"busy": "off", "ghost": "warn"})
    assert run.levels(cluster, replace(DEPLOYMENT, checks={"busy": "fail"})) == {"busy": "fail", "ghost": "warn"}
