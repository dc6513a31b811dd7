"""What a start needs from its nodes, and what of it is known to be missing: images, mount sources, free ports."""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.decide.case import Case
from sparkd.model.snapshot import NodeView, Unknown


@dataclass(frozen=True, slots=True)
class Missing:
    kind: str
    """image | mount"""
    node: str
    what: str
    text: str
    fix: str

    @property
    def fact(self) -> str:
        return f"{self.kind}:{self.node}:{self.what}"


def missing(case: Case) -> list[Missing]:
    """Each thing a start needs that is known to be missing, node by node."""
    image, found = case.deployment.image, []
    for node, view in case.group.views.items():
        if image and not isinstance(view.images, Unknown) and view.images.get(image, "") is None:
            fix = f"on {node}: docker pull {image}, or docker load it"
            found.append(Missing("image", node, image, f"image {image} is not on {node}", fix))
        for mount in case.deployment.container.mounts:
            if not isinstance(view.paths, Unknown) and view.paths.get(mount.source) == "missing":
                text = f"{mount.source}, mounted at {mount.target}, does not exist on {node}"
                found.append(Missing("mount", node, mount.source, text, f"create or mount {mount.source} on {node}"))
    return found


def unasked(case: Case) -> dict[str, str]:
    """Node -> why what a start needs was not looked up there in this snapshot. Not asked is not the same as there."""
    return {node: why for node, view in case.group.views.items() if (why := _unasked(case, view)) is not None}


def _unasked(case: Case, view: NodeView) -> str | None:
    image, mounts = case.deployment.image, case.deployment.container.mounts
    if image and isinstance(view.images, Unknown):
        return view.images.why
    if mounts and isinstance(view.paths, Unknown):
        return view.paths.why
    images = () if isinstance(view.images, Unknown) else view.images
    paths = () if isinstance(view.paths, Unknown) else view.paths
    asked = (not image or image in images) and all(mount.source in paths for mount in mounts)
    return None if asked else "not asked yet"


@dataclass(frozen=True, slots=True)
class PortTaken:
    node: str
    port: int
    text: str
    known: bool
    """False: the sockets could not be read."""


def port_taken(case: Case) -> PortTaken | None:
    """The first port that somebody holds or that cannot be checked; nothing of ours runs when this is asked."""
    for use in case.engine.ports(case.deployment):
        node = case.node_of(use.rank)
        sockets = case.group.views[node].sockets
        if isinstance(sockets, Unknown):
            return PortTaken(node, use.port, f"port {use.port} on {node} cannot be checked: {sockets.why}", False)
        for socket in sockets:
            if socket.state == "LISTEN" and socket.local_port == use.port:
                holder = f" by pid {socket.pid}" if socket.pid else ""
                return PortTaken(node, use.port, f"the {use.what} port {use.port} on {node} is held{holder}", True)
    return None
