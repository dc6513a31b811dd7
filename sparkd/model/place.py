"""A path as a rank sees it -> where it really is: on the node below a mount, or in the image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import join, normpath, relpath

from sparkd.model.config import Deployment


@dataclass(frozen=True, slots=True)
class Place:
    """The root that a path begins at: on the node itself, in a container's root, in an image as it was pulled, or at an API."""

    kind: str
    """host | container | image | api"""
    name: str = ""


HOST = Place("host")


def where(deployment: Deployment, path: str) -> tuple[Place, str]:
    """The innermost mount counts, as it does in the container."""
    if deployment.runtime != "docker" or deployment.image is None:
        return HOST, normpath(path)
    mounts = [mount for mount in deployment.container.mounts if below(path, mount.target)]
    if not mounts:
        return Place("image", deployment.image), normpath(path)
    mount = max(mounts, key=lambda one: len(one.target))
    return HOST, moved(path, mount.target, mount.source)


def on_node(deployment: Deployment, path: str) -> str | None:
    """The path on the node, None where it is inside the image."""
    place, found = where(deployment, path)
    return found if place is HOST else None


def below(path: str, folder: str) -> bool:
    """Is it the folder itself, or in it?"""
    return normpath(path) == normpath(folder) or normpath(path).startswith(normpath(folder).rstrip("/") + "/")


def moved(path: str, target: str, source: str) -> str:
    """A path below the target of a mount, as it is below its source."""
    return normpath(join(source, relpath(path, target)))


_LOADABLE = re.compile(
    r"\.(py|pth|so(\.\d+)*|json|ya?ml|toml|jinja2?|cuh?|h|hpp|ptx|cubin|egg-link|conf)$|/(METADATA|RECORD|direct_url\.json)$"
)
_PASSING = re.compile(
    r"/(__pycache__|\.cache|\.triton|\.config|\.nv|torchinductor[^/]*)/|^/(tmp|run|proc|sys|dev|var|root/\.|home/[^/]+/\.)"
)
"""Written by whatever runs; nothing of it was put there by a person."""


def loadable(path: str) -> bool:
    """May an engine load this file of its container, so that another one makes it another engine?"""
    return _LOADABLE.search(path) is not None and _PASSING.search(path) is None
