"""The ports that ranks open, each on its node: held by a process that will not end by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.decide.strays import goes_by_itself, holder, may_end, remedy
from sparkd.engines import ENGINES as KNOWN
from sparkd.engines import PortUse
from sparkd.facts.engines import ENGINES
from sparkd.facts.sockets import SOCKETS
from sparkd.model.check import Level
from sparkd.model.decision import FailureClass
from sparkd.model.machine import Socket
from sparkd.model.snapshot import Container, NodeView, Unknown


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for use in KNOWN[scene.deployment.engine].ports(scene.deployment):
        node = scene.deployment.nodes[use.rank]
        found, sockets = scene.fact(node, ENGINES), scene.fact(node, SOCKETS)
        view = replace(scene.nodes[node], engines=found, sockets=sockets)
        for socket in _listening(view, use.port):
            ranks = _behind(view, socket, scene.owner)
            # An older generation of its own goes before the next start.
            if all(one.deployment != scene.deployment.name for one in ranks):
                told = _of_another(scene, use, view, socket, ranks[0]) if ranks else _trouble(scene, use, view, socket)
                # A generation that began after the look at the ranks: its processes are not among those of the look.
                if not (scene.running and told.passing):
                    yield told
                break


def _listening(view: NodeView, port: int) -> list[Socket]:
    sockets = () if isinstance(view.sockets, Unknown) else view.sockets
    return [one for one in sockets if one.state == "LISTEN" and one.local_port == port]


def _behind(view: NodeView, socket: Socket, owner: str) -> list[Container]:
    """Our ranks that may hold the socket, of any deployment and generation. An invisible holder may be any living one."""
    ours = [one for one in view.ranks if one.owner == owner]
    if socket.pid is None or isinstance(view.processes, Unknown):
        return [one for one in ours if one.alive]
    owners = {one.owner for one in view.processes if one.pid == socket.pid}
    return [one for one in ours if not owners.isdisjoint(one.owners)]


def _of_another(scene: Scene, use: PortUse, view: NodeView, socket: Socket, rank: Container) -> Trouble:
    """Mild: a deployment that replaces another one on its nodes starts a moment after the other is stopped."""
    goes = goes_by_itself(rank, view, scene.deployment.name)
    after = "sparkd ends it itself" if goes else "a start waits some seconds for it, then holds"
    text = f"the {use.what} port {use.port} on {view.name} is held by rank {rank.rank} of {rank.deployment}: {after}"
    seen = (f"LISTEN {socket.local_ip}:{socket.local_port}",)
    fix = "" if goes else f"sparkd ctl stop {rank.deployment}"
    return Trouble(view.name, text, fix, seen, rank=use.rank, mild=True, passing=goes)


def _trouble(scene: Scene, use: PortUse, view: NodeView, socket: Socket) -> Trouble:
    name, allowed = scene.deployment.name, scene.cluster.cleanup.remove_strays
    held = holder(view, socket.pid, use.port, scene.owner)
    by, fix = f"pid {socket.pid}" if socket.pid else "a process that cannot be seen", "stop it"
    if held is not None:
        by, fix = held.words, remedy(held, view, name, allowed)
    goes = held is not None and (not fix or may_end(held, name, allowed))
    text = f"the {use.what} port {use.port} on {view.name} is held by {by}" + (": sparkd ends it first" if goes else "")
    seen = (f"LISTEN {socket.local_ip}:{socket.local_port}",)
    look = "" if goes else f"on {view.name}: ss -ltnp 'sport = :{use.port}'; {fix}"
    return Trouble(view.name, text, look, seen, rank=use.rank, mild=goes, passing=goes)


CHECK = Check(
    code="port",
    order=140,
    level=Level.FAIL,
    description="The API's, the ranks' meeting port and the like are free: a worker waits for ever on a stranger's (evidence 08).",
    evaluate=evaluate,
    needs=(ENGINES, SOCKETS),
    cls=FailureClass.RESOURCE,
)
