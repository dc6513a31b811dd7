"""Network interfaces and RDMA devices -> their state, one a line, straight from /sys and `ip`.

`if NAME STATE SPEED_MBPS MTU ADDRESS,…|-` and `rdma DEVICE PORT STATE NETDEV|- INDEX:GID:TYPE,…|-`; nothing waits for a link.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Mapping

from sparkd.node import command
from sparkd.node.refusal import Refusal

NET, RDMA = "/sys/class/net", "/sys/class/infiniband"
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    try:
        finished = command.run(["ip", "-json", "address", "show"], deadline_s)
    except FileNotFoundError:
        raise Refusal("failed", "there is no ip on this node (Debian: iproute2)") from None
    if finished.status:
        raise Refusal("failed", f"ip address show: {finished.errors.strip()}")
    return "".join([*_interfaces(json.loads(finished.output)), *_devices()])


def _interfaces(links: Any) -> Iterator[str]:
    for link in links:
        name = link["ifname"]
        if name == "lo":
            continue
        addresses = [one["local"] for one in link.get("addr_info", []) if "local" in one]
        state = link.get("operstate", "UNKNOWN").lower()
        speed = word(f"{NET}/{name}/speed") or "-1"
        yield f"if {name} {state} {speed} {link['mtu']} {','.join(addresses) or '-'}\n"


def _devices() -> Iterator[str]:
    for device in names(RDMA):
        for port in names(f"{RDMA}/{device}/ports"):
            folder = f"{RDMA}/{device}/ports/{port}"
            state = (word(f"{folder}/state") or "unknown").split()[-1].lower()
            gids = ",".join(_gids(folder)) or "-"
            netdev = next(iter(names(f"{RDMA}/{device}/device/net")), "-")
            yield f"rdma {device} {port} {state} {netdev} {gids}\n"


def _gids(folder: str) -> Iterator[str]:
    for index in names(f"{folder}/gids"):
        gid = word(f"{folder}/gids/{index}")
        kind = word(f"{folder}/gid_attrs/types/{index}").replace(" ", "")
        if gid and gid != NO_GID and kind:
            yield f"{index}:{gid}:{kind}"


def names(folder: str) -> list[str]:
    """What is in a folder of /sys, numbers in their order."""
    try:
        return sorted(os.listdir(folder), key=lambda name: (len(name), name))
    except OSError:  # no RDMA on this node, or the device went while we looked
        return []


def word(path: str) -> str:
    """The one word of a file of /sys. Empty where the kernel has no answer: the speed of a link that is down, an unused GID's type."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(256).strip()
    except OSError:
        return ""
