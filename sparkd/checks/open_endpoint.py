"""The API of a running engine: unless it listens on loopback alone or wants a key, every client may use the model.

The check asks it without a key, as a stranger would. It finds nothing before a start: an engine that does not run is
not open.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address

from sparkd.checks.shared.scene import Ask, Check, Page, Place, Scene, Trouble
from sparkd.engines import ENGINES, base_url
from sparkd.facts.sockets import SOCKETS
from sparkd.model.check import Level
from sparkd.model.machine import Socket
from sparkd.model.snapshot import Unknown

"""Costs the engine nothing, and is behind the key where there is one."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for socket, ask in _open(scene):
        if scene.answer(ask) != "200":
            continue
        where = (
            f"{socket.local_ip}:{socket.local_port}"
            if ":" not in socket.local_ip
            else (f"[{socket.local_ip}]:{socket.local_port}")
        )
        text = f"the API on {where} of {ask.node} answers without a key: every client there may use the model"
        seen = (f"LISTEN {where}", f"GET {ask.path} without a key: HTTP 200")
        yield Trouble(ask.node, text, _fix(scene), seen, rank=0)


def asks(scene: Scene) -> Iterator[Ask]:
    yield from (ask for _, ask in _open(scene))


def _open(scene: Scene) -> Iterator[tuple[Socket, Page]]:
    """The first listener on the API's port that is not on loopback, and the page to ask there without a key."""
    deployment = scene.deployment
    head = deployment.nodes[0]
    sockets = scene.fact(head, SOCKETS)
    for socket in () if isinstance(sockets, Unknown) or not scene.running else sockets:
        mine = socket.state == "LISTEN" and socket.local_port == deployment.port
        if mine and not _loopback(socket.local_ip):
            yield (
                socket,
                Page(
                    head, Place("api", base_url(deployment, scene.cluster.nodes)), ENGINES[deployment.engine].keyed_page
                ),
            )
            return


def _loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False  # whatever that is, it is no loopback
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def _fix(scene: Scene) -> str:
    deployment = scene.deployment
    key = ENGINES[deployment.engine].argument_fix("api-key")
    # sparkd itself asks a head on another node over the network.
    local = scene.cluster.nodes[deployment.nodes[0]].is_local
    router = "`args: {host: 127.0.0.1}` and a router before it, or " if local else ""
    return f"in {deployment.file or deployment.name}: {router}{key}"


CHECK = Check(
    code="open-endpoint",
    order=150,
    level=Level.WARN,
    description="The API of a running engine listens on loopback alone or wants a key: else anybody on the network may use it.",
    evaluate=evaluate,
    needs=(SOCKETS,),
    asks=asks,
)
