"""spark1 with the unit and the container of the first report, spark2 with none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from check_world import SPARK1, scene

from sparkd.checks.shared.scene import HOST, Answer, Ask, Look, Place, Scene
from sparkd.facts.boots import BOOTS, Boots
from sparkd.facts.containers import CONTAINERS, Contained
from sparkd.facts.images import IMAGES
from sparkd.facts.units import UNITS, Command, Unit

SCRIPT = "/workspace/vllm-head-090.sh"
PATH = ("/usr/bin", "/bin")
EXEC = Command("ExecStart", ("/usr/bin/docker", "exec", "vllm_ds4", "bash", SCRIPT))
UNIT = Unit(
    name="vllm-ds4-head.service",
    active="inactive",
    file_state="enabled",
    file="/etc/systemd/system/vllm-ds4-head.service",
    restart="on-failure",
    restart_s=30.0,
    limit_starts=5,
    limit_s=10.0,
    commands=(EXEC,),
)
DS4 = Contained(
    id="c1",
    name="vllm_ds4",
    image="vllm:1",
    image_id="sha256:i1",
    state="running",
    exit_code=0,
    restarts=0,
    restart="no",
    started_at=1.6e9,
    argv=("sleep", "infinity"),
    path=PATH,
    workdir=None,
    mounts=(),
)
IN_CONTAINER, IN_IMAGE = Place("container", "c1"), Place("image", "sha256:i1")
WELL: dict[Ask, Answer] = {
    Look(SPARK1, HOST, "/usr/bin/docker"): "file",
    Look(SPARK1, IN_CONTAINER, "/usr/bin/bash"): "file",
    Look(SPARK1, IN_CONTAINER, "/bin/bash"): "missing",
    Look(SPARK1, IN_IMAGE, "/usr/bin/bash"): "file",
    Look(SPARK1, IN_IMAGE, "/bin/bash"): "missing",
}


def at(
    *units: Unit, there: tuple[Contained, ...] = (DS4,), answers: dict[Ask, Answer] | None = None, **more: Any
) -> Scene:
    """spark1 with these units and containers; spark2 has none."""
    facts: dict[Any, Any] = {
        UNITS: {"spark1": units, "spark2": ()},
        CONTAINERS: {"spark1": there, "spark2": ()},
        IMAGES: {"spark1": {"sha256:i1": "sha256:i1", "vllm:1": "sha256:i1"}, "spark2": {}},
        BOOTS: {"spark1": Boots(up_s=1e6), "spark2": Boots(up_s=1e6)},
    }
    return scene(facts, answers={**WELL, **(answers or {})}, **more)


def runs(*words: str, **fields: Any) -> Unit:
    return replace(UNIT, commands=(Command("ExecStart", words),), **fields)
