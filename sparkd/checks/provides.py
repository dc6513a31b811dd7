"""What the deployment needs in the image: Python modules and programs, looked for where the image would find them.

Only what is in the image counts: a module that was installed into a running container is gone when the container
is recreated (first field report: DeepGEMM).
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Ask, Check, Look, Place, Scene, Trouble
from sparkd.facts.image import IMAGE, Image
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Unknown

PYTHONS = tuple(f"python3.{minor}" for minor in range(10, 15))
PACKAGES = ("site-packages", "dist-packages")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Docker's own, where an image sets none."""


def asks(scene: Scene) -> Iterator[Ask]:
    for node in scene.deployment.nodes:
        for _, name, paths in _wanted(scene, node):
            yield from (_look(scene, node, path) for path in paths if name)


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node in scene.deployment.nodes:
        for what, name, paths in _wanted(scene, node):
            found = [scene.answer(_look(scene, node, path)) for path in paths]
            if any(isinstance(one, Unknown) for one in found) or {"file", "dir"} & set(map(str, found)):
                continue
            image = scene.deployment.image
            text = f"{what} {name} is not in {image} on {node}"
            fix = f"build {image} with it: what is installed into a running container goes with the container"
            yield Trouble(node, text, fix)


def _wanted(scene: Scene, node: str) -> Iterator[tuple[str, str, list[str]]]:
    """(what it is, its name, every path where it may be)."""
    image = scene.fact(node, IMAGE)
    if not isinstance(image, Image):
        return
    env = dict(entry.partition("=")[::2] for entry in image.env)
    folders = [folder for folder in env.get("PATH", PATH).split(":") if folder.startswith("/")]
    for name in scene.deployment.provides.get("binaries") or ():
        paths = [name] if str(name).startswith("/") else [f"{folder}/{name}" for folder in folders]
        yield "the program", str(name), paths
    for name in scene.deployment.provides.get("modules") or ():
        yield "the Python module", str(name), list(_module_paths(str(name), folders, env.get("PYTHONPATH", "")))


def _module_paths(name: str, folders: list[str], python_path: str) -> Iterator[str]:
    """A package or a module of one file, below every prefix that has a `bin` in PATH."""
    relative = name.replace(".", "/")
    prefixes = dict.fromkeys([*(one.removesuffix("/bin") for one in folders if one.endswith("/bin")), "/usr"])
    libraries = [f"{prefix}/lib/{python}/{kind}" for prefix in prefixes for python in PYTHONS for kind in PACKAGES]
    libraries += [f"{prefix}/lib/python3/dist-packages" for prefix in prefixes]
    for library in [*filter(None, python_path.split(":")), *libraries]:
        yield f"{library}/{relative}"
        yield f"{library}/{relative}.py"


def _look(scene: Scene, node: str, path: str) -> Look:
    return Look(node, Place("image", str(scene.deployment.image)), path)


def _names_something(deployment: Deployment) -> bool:
    return deployment.image is not None and any(deployment.provides.get(key) for key in ("modules", "binaries"))


CHECK = Check(
    code="provides",
    order=40,
    level=Level.FAIL,
    description="The Python modules and programs that the deployment names are in the image itself.",
    evaluate=evaluate,
    needs=(IMAGE,),
    asks=asks,
    applies=_names_something,
)
