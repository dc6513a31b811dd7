"""What a start needs from its nodes, and what of it is known to be missing: images, paths, devices, users, free ports."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sparkd.decide.case import Case
from sparkd.model.config import Deployment
from sparkd.model.snapshot import NodeView, Unknown


@dataclass(frozen=True, slots=True)
class Missing:
    kind: str
    """image | mount | device | path | user"""
    node: str
    what: str
    text: str
    fix: str

    @property
    def fact(self) -> str:
        return f"{self.kind}:{self.node}:{self.what}"


MAKE = {"mount": "create or mount", "path": "create or mount", "device": "load the driver that makes"}


def no_image(node: str, image: str) -> Missing:
    fix = f"on {node}: docker pull {image}, or docker load it"
    return Missing("image", node, image, f"image {image} is not on {node}", fix)


def missing(case: Case) -> list[Missing]:
    """Each thing a start needs that is known to be missing, node by node."""
    image, found = case.deployment.image, []
    for node, view in case.group.views.items():
        if image and not isinstance(view.images, Unknown) and view.images.get(image, "") is None:
            found.append(no_image(node, image))
        found += _paths(case.deployment, node, view)
        user = case.deployment.user
        if user and not isinstance(view.users, Unknown) and view.users.get(user, 0) is None:
            text = f"user {user}, who runs the ranks, does not exist on {node}"
            found.append(Missing("user", node, user, text, f"create user {user} on {node}"))
    return found


def _paths(deployment: Deployment, node: str, view: NodeView) -> list[Missing]:
    seen = {} if isinstance(view.paths, Unknown) else view.paths
    kind, found = ("mount" if deployment.runtime == "docker" else "path"), []
    for path, purpose in deployment.sources.items():
        if seen.get(path) == "missing":
            lacks = "device" if path in deployment.devices else kind
            text = f"{path}, {purpose}, does not exist on {node}"
            found.append(Missing(lacks, node, path, text, f"{MAKE[lacks]} {path} on {node}"))
        if seen.get(path) == "no-interpreter" and deployment.runtime == "process":
            text = f"{path} cannot run on {node}: the interpreter that its first line names is not there"
            found.append(Missing(kind, node, path, text, f"make its venv anew on {node}: head -1 {path}"))
    return found


def images(case: Case) -> dict[str, str]:
    """Node -> id of the deployment's image there, where it was looked up and found."""
    known = {name: view.images for name, view in case.group.views.items() if not isinstance(view.images, Unknown)}
    image = case.deployment.image or ""
    return {name: found for name, ids in known.items() if (found := ids.get(image)) is not None}


def unasked(case: Case) -> dict[str, str]:
    """Node -> why what a start needs was not looked up there in this snapshot. Not asked is not the same as there."""
    return {node: why for node, view in case.group.views.items() if (why := _unasked(case, view)) is not None}


def _unasked(case: Case, view: NodeView) -> str | None:
    one = case.deployment
    wanted: tuple[tuple[Collection[str], Collection[str] | Unknown], ...] = (
        ((one.image,) if one.image else (), view.images),
        (one.sources, view.paths),
        ((one.user,) if one.user else (), view.users),
    )
    for needed, asked in wanted:
        if needed and isinstance(asked, Unknown):
            return asked.why
    there = all(isinstance(asked, Unknown) or all(name in asked for name in needed) for needed, asked in wanted)
    return None if there else "not asked yet"


@dataclass(frozen=True, slots=True)
class PortTaken:
    node: str
    port: int
    text: str
    known: bool
    """False: the sockets could not be read."""
    what: str = ""
    """api | master"""
    pid: int | None = None


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
                text = f"the {use.what} port {use.port} on {node} is held{holder}"
                return PortTaken(node, use.port, text, True, use.what, socket.pid)
    return None
