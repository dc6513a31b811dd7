"""Files that were read, and what may be running -> the deployments there are, each with what its next start goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkd.model.config import BrokenDeployment, Config, Deployment, as_started
from sparkd.model.decision import Phase, State
from sparkd.model.view import Pending
from sparkd.reporting import config_changes


@dataclass(slots=True)
class Roster:
    wanted: dict[str, Deployment]
    """Everything that is supervised: by its file, or without a usable one by what was last known of it."""
    broken: tuple[BrokenDeployment, ...] = ()
    """Files that cannot be used, of deployments of which nothing runs."""
    fileless: dict[str, BrokenDeployment | None] = field(default_factory=dict)
    """Supervised without a usable file: what is wrong with it, None where it is gone."""

    def pending(self, name: str, state: State) -> Pending:
        """What the file says by now about a deployment that may be running."""
        wanted = self.wanted[name]
        running = as_started(state.started, wanted)
        changes = config_changes.of_deployments(running, wanted) if running is not wanted else ()
        broken = self.fileless.get(name)
        problems = broken.problems if broken is not None else ()
        return Pending(changes, problems, removed=name in self.fileless and broken is None)

    def without(self, name: str) -> Roster:
        """The same once nothing runs any more of one that has no usable file: only what is wrong with the file is left."""
        broken = self.fileless[name]
        return Roster(
            wanted={other: one for other, one in self.wanted.items() if other != name},
            broken=self.broken if broken is None else (*self.broken, broken),
            fileless={other: one for other, one in self.fileless.items() if other != name},
        )


def roster(config: Config, kept: Mapping[str, Deployment]) -> Roster:
    """`kept`: deployments that may be running, and what they go on by where there is no usable file of theirs."""
    wanted = {deployment.name: deployment for deployment in config.deployments}
    of_name = {one.name: one for one in config.broken}
    of_file = {one.file: one for one in config.broken}
    # A file in which not even the name can be read is known by its path.
    fileless = {
        name: of_name.get(name) or of_file.get(deployment.file)
        for name, deployment in kept.items()
        if name not in wanted
    }
    spoken_for = [one.file for one in fileless.values() if one is not None]
    broken = tuple(one for one in config.broken if one.file not in spoken_for)
    return Roster({**wanted, **{name: kept[name] for name in fileless}}, broken, fileless)


def may_run(state: State) -> bool:
    """May anything of it be running? Until sparkd has looked, nobody knows."""
    return state.started is not None or state.phase is Phase.ADOPTING
