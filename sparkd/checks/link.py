"""The fabric: the data address is there and up, halves of a port agree, and the names in the environment exist *there*.

Passive: nothing is sent beside the echoes that the loop sends anyway. Interface names differ from node to node (second
field report), so each name is looked up on the node whose rank gets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.engines import ENGINES
from sparkd.facts.links import LINKS, Interface, Links
from sparkd.facts.rdma import RDMA
from sparkd.model.check import Level
from sparkd.model.snapshot import Unknown

FABRIC_MBPS = 100_000
"""A ConnectX-7 port of a Spark links at 200 Gb/s; its two halves show as two interfaces of 100 or 200."""
LOCKED_BYTES = 1 << 30
"""Defaults are 64 KiB and 8 MiB; NCCL registers its buffers of all channels and the GPU's memory beside them."""
SOCKET_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")


def evaluate(scene: Scene) -> Iterator[Trouble]:
    alone = len(scene.deployment.nodes) == 1
    found = dict(scene.each(LINKS))
    for node, links in found.items():
        if not alone:
            yield from _data_address(scene, node, links)
            yield from _unreached(scene, node)
        yield from _names(scene, node, links)
        if not alone and scene.deployment.hardware == "gb10":
            yield from _rights(scene, node)
    if not alone:
        yield from _mtu(scene, found)


def _data_address(scene: Scene, node: str, links: Links) -> Iterator[Trouble]:
    address = scene.cluster.nodes[node].data_address
    if address is None or ip_address(address).is_loopback:  # nodes that are one machine, as in the demo
        return
    interface = links.having(address)
    if interface is None:
        text = f"no interface of {node} has the address {address} (data_address in sparkd.yaml)"
        seen = tuple(f"{one.name}: {', '.join(one.addresses) or 'no address'}" for one in links.interfaces)
        yield Trouble(node, text, f"on {node}: ip address; give the fabric's interface its address", seen, not_yet=True)
        return
    if interface.state == "down":
        text = f"the fabric's interface {interface.name} on {node} is down"
        fix = f"check the cable and its other end; on {node}: ip link set {interface.name} up"
        yield Trouble(node, text, fix, not_yet=True)
    elif scene.deployment.hardware == "gb10":
        yield from _slow(node, interface, links)


def _unreached(scene: Scene, node: str) -> Iterator[Trouble]:
    """A firewall may drop echoes and nothing else, so this is a warning."""
    pings = scene.nodes[node].pings
    peers = {scene.cluster.nodes[peer].data_address: peer for peer in scene.deployment.nodes if peer != node}
    for one in () if isinstance(pings, Unknown) else pings:
        if one.silent and one.address in peers:
            text = f"{peers[one.address]} ({one.address}) does not answer {node} over the fabric"
            yield Trouble(node, text, f"on {node}: ping {one.address}; ip neighbour; is the cable in?", mild=True)


def _slow(node: str, interface: Interface, links: Links) -> Iterator[Trouble]:
    if 0 <= interface.speed_mbps < FABRIC_MBPS:
        text = f"{interface.name} on {node} runs at {interface.speed_mbps / 1000:g} Gb/s"
        fix = "is data_address the fabric's, and is the cable made for 200 Gb/s?"
        yield Trouble(node, text, fix, mild=True)
    other = other_half(interface, links)
    if other is not None and (other.state == "down" or not other.addresses):
        what = "is down" if other.state == "down" else "has no address"
        text = (
            f"{other.name}, the other half of {interface.name} on {node}, {what}: half of the port's rate is not used"
        )
        yield Trouble(node, text, f"on {node}: give {other.name} an address in a subnet of its own", mild=True)


def other_half(interface: Interface, links: Links) -> Interface | None:
    """`enp1s0f0np0` and `enP2p1s0f0np0` are one port, on two PCIe links of the same adapter."""
    port = re.search(r"(f\d+np\d+)$", interface.name)
    if port is None:
        return None
    halves = (one for one in links.interfaces if one.name.endswith(port[1]) and one.name != interface.name)
    return next(halves, None)


def _mtu(scene: Scene, found: Mapping[str, Links]) -> Iterator[Trouble]:
    mtus: dict[str, int] = {}
    for node, links in found.items():
        address = scene.cluster.nodes[node].data_address
        interface = links.having(address) if address else None
        if interface is not None:
            mtus[node] = interface.mtu
    common, odd = odd_ones(mtus)
    for node, mtu in odd.items():
        text = f"the MTU of the fabric is {mtu} on {node}, elsewhere {common}: small messages pass, large ones hang"
        yield Trouble(node, text, f"set the same MTU on both ends, for example 9000 on {node}")


def _names(scene: Scene, node: str, links: Links) -> Iterator[Trouble]:
    """What the rank's environment names must exist on its node."""
    deployment = scene.deployment
    env = {**deployment.env, **deployment.node_env.get(node, {})}
    file, rank = deployment.file or "the deployment file", deployment.nodes.index(node)
    there = ", ".join(one.name for one in links.interfaces)
    for variable in SOCKET_NAMES:
        wanted = env.get(variable, "")
        if wanted and not any(_matches(wanted, one.name) for one in links.interfaces):
            text = f"{variable}={wanted}, but {node} has no such interface"
            yield Trouble(node, text, f"in {file}: node_env: {{{node}: {{{variable}: …}}}}", (f"there: {there}",), rank)
    ports = {f"{one.device}:{one.port}" for one in links.rdma} | {one.device for one in links.rdma}
    for device in _hcas(env.get("NCCL_IB_HCA", "")):
        if not any(port.startswith(device) for port in ports):
            text = f"NCCL_IB_HCA names {device}, but {node} has no such RDMA device: NCCL falls back to TCP"
            seen = (f"there: {', '.join(sorted(ports)) or 'no RDMA device'}",)
            yield Trouble(node, text, f"in {file}: node_env: {{{node}: {{NCCL_IB_HCA: …}}}}", seen, rank, not_yet=True)
    yield from _gid(scene, node, links, env)
    address = ENGINES[deployment.engine].variables.address
    host_ip = env.get(address or "", "")
    if host_ip and links.having(host_ip) is None:
        text = f"{address} is {host_ip}, which is no address of {node}: the other ranks cannot reach this one"
        yield Trouble(node, text, f"in {file}: node_env: {{{node}: {{{address}: …}}}}", rank=rank)


def _gid(scene: Scene, node: str, links: Links, env: Mapping[str, str]) -> Iterator[Trouble]:
    """The table of GIDs is filled from the interface's addresses: another order there, or IPv6 off, moves the index."""
    index = env.get("NCCL_IB_GID_INDEX", "")
    if not index.isdigit():  # NCCL's own -1 looks for one
        return
    named = _hcas(env.get("NCCL_IB_HCA", ""))
    ours = links.having(scene.cluster.nodes[node].data_address or "")
    for one in links.rdma:
        port = f"{one.device}:{one.port}"
        used = any(port.startswith(hca) for hca in named) if named else ours is not None and one.interface == ours.name
        if used and not any(gid.startswith(f"{index}:") for gid in one.gids):
            text = f"NCCL_IB_GID_INDEX is {index}, and {port} of {node} has no GID there: RDMA connections fail"
            rank, file = scene.deployment.nodes.index(node), scene.deployment.file or "the deployment file"
            seen = (f"{port}: {', '.join(one.gids) or 'no GID'}",)
            yield Trouble(node, text, f"in {file}: node_env: {{{node}: {{NCCL_IB_GID_INDEX: …}}}}", seen, rank)


def _rights(scene: Scene, node: str) -> Iterator[Trouble]:
    """What runs is the proof: what the file asks for, another start of Docker or a system's default may have undone."""
    file, found = scene.deployment.file or "the deployment file", scene.fact(node, RDMA)
    ours = {
        owner: one.rank
        for one in scene.nodes[node].ranks
        if one.owner == scene.owner and one.deployment == scene.deployment.name
        for owner in one.owners
    }
    for rights in () if isinstance(found, Unknown) else found:
        rank = ours.get(rights.owner)
        if rank is None:
            continue
        if rights.devices is not None and not any(one.startswith("uverbs") for one in rights.devices):
            text = f"rank {rank} on {node} does not see /dev/infiniband: NCCL talks TCP, at a fraction of the rate"
            fix = f"in {file}: container: {{devices: [/dev/infiniband]}}, or privileged: true"
            seen = (f"/dev/infiniband of pid {rights.pid}: {', '.join(rights.devices) or 'not there, or empty'}",)
            yield Trouble(node, text, fix, seen, rank, mild=True)
        if rights.memlock_bytes is not None and rights.memlock_bytes < LOCKED_BYTES:
            text = f"rank {rank} on {node} may lock {rights.memlock_bytes >> 10} KiB of memory: registering buffers for RDMA fails"
            seen = (f"/proc/{rights.pid}/limits: Max locked memory {rights.memlock_bytes}",)
            yield Trouble(node, text, f"in {file}: container: {{ulimits: {{memlock: -1}}}}", seen, rank, mild=True)


def _matches(wanted: str, name: str) -> bool:
    """NCCL's and gloo's lists: prefixes unless they begin with `=`; `^` means all but these."""
    if wanted.startswith("^"):
        return not any(name.startswith(one) for one in wanted[1:].split(","))
    exact, names = wanted.startswith("="), wanted.lstrip("=").split(",")
    return any(name == one if exact else name.startswith(one.partition(":")[0]) for one in names)


def _hcas(value: str) -> list[str]:
    if not value or value.startswith("^"):
        return []
    return [one for one in value.lstrip("=").split(",") if one]


CHECK = Check(
    code="link",
    order=220,
    level=Level.FAIL,
    description="The fabric's address is up on every node, MTUs agree, interfaces named in the environment exist, and what "
    "runs may use RDMA.",
    evaluate=evaluate,
    needs=(LINKS, RDMA),
    reads=("pings",),
)
