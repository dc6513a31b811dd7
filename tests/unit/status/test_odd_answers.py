"""Odd words of nodes and files cost themselves alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkd.act.cleanup import MAX_NAMES, batched
from sparkd.act.hands import ActionFailed, Hands
from sparkd.base.redact import Redactor
from sparkd.facts import FactError, boot
from sparkd.hosts import LocalHost, Sockets
from sparkd.hosts.client import NodeClient
from sparkd.journal.owner import owner_id
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.decision import Phase, State
from sparkd.model.snapshot import Container, Unknown
from sparkd.observe import NodeAccess, Observer
from sparkd.observe.nodes import NodeLook
from sparkd.observe.unknowns import Unknowns
from sparkd.runtimes.docker import DockerRuntime

BOOT = "boot_id b\npid1_ticks 1\nuptime_s {}\nhostname h\nclk_tck 100\nnow {}\n"


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf"])
def test_a_node_whose_clock_is_no_number(odd: str) -> None:
    for text in (BOOT.format(odd, "1"), BOOT.format("1", odd)):
        with pytest.raises(FactError):
            boot.parse(text)


def test_the_owner_id_is_an_id_whatever_the_journal_holds(tmp_path: Path) -> None:
    known = "5d0f2a3e-0000-4000-8000-000000000001"
    assert owner_id(tmp_path / "owner", known) == known
    assert owner_id(tmp_path / "owner", "\x00rubbish") == known
    (tmp_path / "folder").mkdir()
    assert owner_id(tmp_path / "folder", known) == known


def test_thousands_of_segments_are_unlinked_in_parts() -> None:
    names = [f"psm_{number}" for number in range(2 * MAX_NAMES + 1)]
    parts = list(batched(names))
    assert [len(part) for part in parts] == [MAX_NAMES, MAX_NAMES, 1]
    assert [name for part in parts for name in part] == names


def test_a_secret_that_is_a_pipe_keeps_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), secrets={"TOKEN": str(tmp_path / "pipe")})
    assert Redactor.of(deployment)("text") == "text"


async def test_a_secret_that_is_a_pipe_fails_its_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), secrets={"TOKEN": str(tmp_path / "pipe")})
    hands = Hands(Cluster(cluster="c", nodes={}), deployment, "us", {}, {}, tmp_path)
    with pytest.raises(ActionFailed, match="a FIFO, not a regular file"):
        await hands.secret("TOKEN")


async def test_a_bug_in_the_look_at_one_node_blinds_nobody_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {name: LocalHost(name, Sockets(tmp_path / "docker", tmp_path / "service")) for name in ("a", "b")}
    access = {
        name: NodeAccess(NodeClient(host, "us"), DockerRuntime(name, host.docker_socket))
        for name, host in hosts.items()
    }
    cluster = Cluster(cluster="c", nodes={name: Node(name=name, address="local") for name in hosts})
    observer = Observer(cluster, access, "us")
    real = NodeLook.look

    async def odd(self: NodeLook, *args: object) -> object:
        if self.name == "a":
            raise TypeError("a bug")
        return await real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeLook, "look", odd)
    one = Deployment(name="d", engine="vllm", nodes=("a", "b"))
    seen = await observer.look([one], {"d": State()})
    whys = [view.boot.why for view in seen.nodes.values() if isinstance(view.boot, Unknown)]
    assert whys[0] == "unreadable node a: TypeError, a bug in sparkd, see its log"
    assert "no node service answers" in whys[1]


async def test_what_ranks_have_done_is_asked_only_while_one_of_theirs_starts(tmp_path: Path) -> None:
    """It is paid per process of a node, in every look."""
    host = LocalHost("a", Sockets(tmp_path / "docker", tmp_path / "service"))
    access = NodeAccess(NodeClient(host, "us"), DockerRuntime("a", host.docker_socket))
    cluster = Cluster(cluster="c", nodes={"a": Node(name="a", address="local")})
    look = NodeLook("a", cluster, access, "us", Unknowns())
    ranks = tuple(Container(f"{n}" * 64, f"sparkd-{n}-0", f"d{n}", 0, 1, "us", "spec", "running") for n in range(2))
    look._units = (Container("u", "sparkd-d0-1", "d0", 1, 1, "us", "spec", "running", runtime="process"),)
    assert "work" not in look._second(ranks, [], set())
    assert look._second(ranks, [], {"d0"})["work"] == {"containers": ["0" * 64], "units": ["sparkd-d0-1.service"]}
    for phase, asked in ((Phase.SERVE, False), (Phase.START_HEAD, True), (Phase.WARMUP, True)):
        one = Deployment(name="d", engine="vllm", nodes=("a",))
        seen = await look.look([one], {"d": State(phase=phase)}, {"docker"})
        assert isinstance(seen.work, Unknown) == asked
