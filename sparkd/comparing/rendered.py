"""A rank as sparkd renders it from a deployment -> its canonical form."""

from __future__ import annotations

from sparkd.drift.argv import read_argv
from sparkd.drift.container import mounted, of_spec
from sparkd.drift.form import RankForm
from sparkd.drift.values import path as tidy_path
from sparkd.engines import recognised
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.model.config import Deployment
from sparkd.model.rank import IDENTITY, RankSpec
from sparkd.model.size import parse_size


def form_of(
    deployment: Deployment,
    spec: RankSpec,
    image_id: str | None = None,
    engine_id: str | None = None,
    tables: Tables = SHIPPED,
) -> RankForm:
    """Secrets are references here already. `image_id`: of the image that its name stands for on the rank's node; `engine_id`: see
    RankForm."""
    named = recognised.started(spec.argv)
    program = named[1] if named else deployment.command or spec.argv[:2]
    words = named[2] if named else spec.argv[len(program) :]
    arguments = read_argv(words, tables.of(deployment.engine, engine_id or image_id))
    env = {name: value for name, value in spec.env.items() if name not in IDENTITY}
    c, in_docker = spec.container, spec.runtime == "docker"
    sizes = {"shm_size": _size(c.shm_size), "memory": _size(c.memory)}
    return RankForm(
        rank=spec.rank,
        node=spec.node,
        engine=deployment.engine,
        program=tuple(program),
        model=arguments.model,
        flags=arguments.flags,
        env={**env, **{name: f"<from {file}>" for name, file in spec.secrets.items()}},
        image=spec.image if in_docker else None,
        image_id=image_id if in_docker else None,
        engine_id=engine_id,
        container=of_spec(c, c.gpus is not None and spec.hardware != "cpu", sizes) if in_docker else None,
        mounts=mounted((mount.source, tidy_path(mount.target), mount.read_only) for mount in c.mounts)
        if in_docker
        else None,
    )


def _size(text: str | None) -> int | None:
    return None if text is None else parse_size(text)
