"""A program: sparkd with one engine more in its folders -> what each part of it makes of that engine, as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def extend(name: str, folder: Path) -> None:
    """Import a package that has one folder more to look for its modules in."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    assert spec.submodule_search_locations is not None
    spec.submodule_search_locations.append(str(folder))
    module = module_from_spec(spec)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
    spec.loader.exec_module(module)


extend("sparkd.node.signs", HERE / "signs")
extend("sparkd.engines", HERE / "engines")

import anyio  # noqa: E402
from aiohttp import web  # noqa: E402
from decide import world  # noqa: E402

from docs import keys  # noqa: E402
from sparkd import http, render, settings  # noqa: E402
from sparkd.act.canary import canary  # noqa: E402
from sparkd.act.hands import Hands  # noqa: E402
from sparkd.checks.shared.starters import about  # noqa: E402
from sparkd.decide.memory_need import needed  # noqa: E402
from sparkd.engines import ENGINES, base_url  # noqa: E402
from sparkd.importers.read import read_side  # noqa: E402
from sparkd.importers.to_deployment import to_deployment  # noqa: E402
from sparkd.model.action import SendCanary  # noqa: E402
from sparkd.model.config import Cluster, Deployment, Node  # noqa: E402
from sparkd.model.machine import Memory  # noqa: E402
from sparkd.node.probes import engines as engines_probe  # noqa: E402
from sparkd.node.probes import programs as programs_probe  # noqa: E402
from sparkd.node.unit_files import WORDS  # noqa: E402
from sparkd.observe.engine import EngineLook  # noqa: E402
from sparkd.observe.unknowns import Unknowns  # noqa: E402
from sparkd.settings.schema import deployment_schema  # noqa: E402

TOY = ENGINES["toy"]
CLUSTER = (
    "cluster: c\nnodes:\n  a: {address: local, data_address: 10.0.0.1}\n  b: {address: b, data_address: 10.0.0.2}\n"
)
TEXT = "name: box\nengine: toy\nnodes: [a, b]\nimage: toybox:1\nmodel: /m\nargs: {springs: 2}\n"


def configuration(folder: Path) -> dict[str, Any]:
    (folder / "deployments").mkdir()
    (folder / "sparkd.yaml").write_text(CLUSTER)
    (folder / "deployments/box.yaml").write_text(TEXT)
    loaded = settings.load(folder)
    (deployment,) = loaded.deployments
    (folder / "deployments/box.yaml").write_text(TEXT.replace("springs: 2", "springs: 2, seat: 1"))
    refused = settings.load(folder)  # with an argument that the engine keeps for itself
    specs = render.rank_specs(deployment, loaded.cluster.nodes, "us", 1)
    return {
        "engine": deployment.engine,
        "argv": [list(spec.argv) for spec in specs],
        "address": specs[1].env["TOY_ADDRESS"],
        "refused": [problem.partition(": ")[2] for broken in refused.broken for problem in broken.problems],
        "enum": deployment_schema()["properties"]["engine"]["enum"],
        "documented": "`toy`" in keys.configuration(),
        "memory": needed(deployment, 0, Memory(128 << 30, 1, 1, 0, 0, 0)),
    }


async def asked() -> list[str]:
    """Paths that are asked of a running engine, in order."""
    paths: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(text="5")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster = Cluster(cluster="c", nodes={"a": Node(name="a", address="local")})
    deployment = Deployment(name="box", engine="toy", nodes=("a",), model="/m", port=runner.addresses[0][1])
    look, base = EngineLook(cluster, {}, Unknowns()), base_url(deployment, cluster.nodes)
    try:
        await look._health(base, deployment)
        await look._metrics(base, deployment)
        await canary(Hands(cluster, deployment, "us", {}, {}, Path("/")), SendCanary(1, 5.0))
    finally:
        await http.aclose()
        await runner.cleanup()
    return paths


def imported(folder: Path) -> dict[str, Any]:
    script = folder / "start.sh"
    script.write_text(
        "#!/bin/bash\nexport TOY_ADDRESS=10.0.0.2\nexec /opt/toy/bin/toy-server /m --seat 1 --mute --tune x\n"
    )
    side = read_side(script)
    entry = folder / "run.sh"
    entry.write_text("#!/bin/bash\ndocker run --rm you/toybox:1 --tune y\n")
    (form,) = side.ranks
    return {
        "engine": form.engine,
        "rank": form.rank,
        "entry": read_side(entry).ranks[0].engine,
        "args": dict(to_deployment(side, "box").values["args"]),
    }


@contextmanager
def running() -> Iterator[int]:
    process = subprocess.Popen(["/opt/toy/bin/toy-server", "60"], executable="/bin/sleep")
    try:
        # Its words are there a moment after exec() has closed the pipe by which Popen knows of it.
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            assert process.poll() is None
        yield process.pid
    finally:
        process.kill()
        process.wait()


def on_node() -> dict[str, Any]:
    with running() as pid:
        found = {line.split(" ")[0] for line in engines_probe.probe({}, 5.0).splitlines()}
        mains = programs_probe.mains()
    words = WORDS.search("exec toy-server --port 1")
    return {
        "engine": str(pid) in found,
        "main": str(pid) in mains,
        "words": words and words[0],
        "about": about("toy-1"),
    }


def judged() -> dict[str, Any]:
    """What its log says when it breaks, as decisions take it."""
    findings = tuple(replace(one, rank=1) for one in TOY.findings(["SPROING"]))
    look = world.both(replace(world.HEALTHY, log_findings=findings))
    decision = world.decide(world.serving(), look)
    return {"said": [str(one) for one in findings], "since": decision.state.watch.exception_since == world.NOW}


def main() -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        seen = {
            "configuration": configuration(Path(one)),
            "asked": anyio.run(asked),
            "imported": imported(Path(other)),
            "node": on_node(),
            "judged": judged(),
        }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
