"""One node -> NodeView: its service asked by probes, its Docker only while it runs, all within one deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio

from sparkd.base import clock
from sparkd.base.errors import DockerError, DockerMute, DockerStopped, HostError, Late
from sparkd.engines import ENGINES
from sparkd.facts.boot import BOOT
from sparkd.facts.docker import DOCKER
from sparkd.facts.effort import EFFORT
from sparkd.facts.engines import ENGINES as ENGINE_PROCESSES
from sparkd.facts.gpu_load import GPU_LOAD
from sparkd.facts.holders import HOLDERS
from sparkd.facts.memory import MEMINFO
from sparkd.facts.paths import PATHS
from sparkd.facts.ping import PING
from sparkd.facts.processes import PROCESSES
from sparkd.facts.sockets import SOCKETS
from sparkd.facts.system import SYSTEM
from sparkd.facts.users import USERS
from sparkd.facts.work import WORK
from sparkd.hosts.client import Probed
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import ASK_LEFTOVERS, ASK_SOURCES, STARTING, State
from sparkd.model.effort import Effort
from sparkd.model.machine import DockerUnit, Process, Work
from sparkd.model.rank import unit_name
from sparkd.model.snapshot import DOCKER_STOPPED, Container, NodeView, Unknown
from sparkd.observe.effort import PATIENCE_S, EffortLook
from sparkd.observe.unknowns import NodeAccess, Reader, Unknowns, code_of

T = TypeVar("T")
Owned = TypeVar("Owned", Process, Work)
Requests = dict[str, Mapping[str, Any] | None]


def _users(near: Sequence[Deployment]) -> list[str]:
    return sorted({one.user for one in near if one.user})


@dataclass(slots=True)
class NodeLook:
    """Looks at one node; remembers the ranks it saw last, for the time that Docker or systemd does not answer."""

    name: str
    cluster: Cluster
    access: NodeAccess
    owner: str
    unknowns: Unknowns
    _containers: tuple[Container, ...] = field(default=())
    _units: tuple[Container, ...] = field(default=())
    _effort: EffortLook = field(init=False)

    def __post_init__(self) -> None:
        self._effort = EffortLook(self.name)

    async def look(
        self, deployments: Sequence[Deployment], states: Mapping[str, State], runtimes: Set[str]
    ) -> NodeView:
        """`deployments`: those with a rank on this node; `runtimes`: those of all, as a rank may be where it was moved from.

        Takes no longer than the node deadline; never raises.
        """
        deadline = clock.now() + self.cluster.policy.node_deadline
        probed, trouble = await self._probe(self._first(deployments), deadline)
        read = Reader(self.unknowns, self.name, probed, trouble)
        unit = await read(DOCKER)
        self.access.docker_runs = None if isinstance(unit, Unknown) else unit.running
        near = [one for one in deployments if states[one.name].phase in ASK_SOURCES]
        containers = await self._list_containers(unit, deadline) if runtimes != {"process"} else ()
        images = await self._images(unit, near, deadline)
        units = await self._list_units(runtimes, deadline, trouble)
        starting = {one.name for one in deployments if states[one.name].phase in STARTING}
        later, later_trouble = await self._probe(self._second(containers, near, starting), deadline, trouble)
        read_later = Reader(self.unknowns, self.name, later, later_trouble)
        view = NodeView(
            name=self.name,
            boot=await read(BOOT),
            memory=await read(MEMINFO),
            system=await self._system(read, read_later, self._ended(containers)),
            docker=unit,
            containers=containers,
            processes=self._by_id(await read_later(PROCESSES)),
            sockets=await read(SOCKETS),
            pings=await read(PING) if self._peers(deployments) else (),
            images=images,
            paths=await read_later(PATHS) if near else {},
            leftovers=await self._leftovers(deployments, states, deadline, trouble),
            units=units,
            users=await read_later(USERS) if _users(near) else {},
            engines=await read_later(ENGINE_PROCESSES) if near else (),
            holders=await read_later(HOLDERS) if near else None,
            work=self._by_id(await read_later(WORK)) if starting else (),
            in_use=tuple(sorted({one.runtime for one in deployments})),
        )
        return await self._with_effort(view, deployments, states, deadline, trouble or later_trouble)

    def _by_id(self, found: tuple[Owned, ...] | Unknown) -> tuple[Owned, ...] | Unknown:
        """A unit's processes carry its name, which every generation has; from here on they carry its id."""
        if isinstance(found, Unknown):
            return found
        return tuple(replace(one, owner=self._id(one.owner)) for one in found)

    def _id(self, owner: str) -> str:
        return next((one.id for one in self._units if unit_name(one.name) == owner), owner)

    # ---------------------------------------------------------------------------------------------------- node service

    async def _probe(
        self, requests: Requests, deadline: float, earlier: HostError | None = None
    ) -> tuple[Probed | None, HostError | None]:
        left = deadline - clock.now()
        if earlier is not None or left <= 0:
            return None, earlier
        try:
            with anyio.fail_after(left):
                await self.access.client.greet()
                return await self.access.client.probe(requests, deadline_s=max(0.2, left - 0.2)), None
        except HostError as error:
            return None, error
        except TimeoutError:
            return None, Late(
                self.name, f"the node service did not answer within {self.cluster.policy.node_deadline:.0f} s"
            )

    def _first(self, deployments: Sequence[Deployment]) -> Requests:
        ports = sorted({use.port for one in deployments for use in ENGINES[one.engine].ports(one)})
        requests: Requests = {fact.name: None for fact in (BOOT, MEMINFO, SYSTEM, DOCKER)}
        requests[SOCKETS.name] = {"ports": ports}
        peers = self._peers(deployments)
        if peers:
            requests[PING.name] = {"addresses": peers, "timeout_s": 1.0}
        return requests

    async def _with_effort(
        self,
        view: NodeView,
        deployments: Sequence[Deployment],
        states: Mapping[str, State],
        deadline: float,
        earlier: HostError | None,
    ) -> NodeView:
        """The last of all, and under a deadline of its own: nothing waits for a tool that is mute."""
        now = clock.now()
        if not self._effort.due(deployments, states, now):
            return view
        self._effort.asked(now)
        requests: Requests = {EFFORT.name: {**self._owned(view.containers), "address": self._address()}}
        cards = any(one.hardware != "cpu" for one in deployments)
        if cards:
            requests[GPU_LOAD.name] = None
        read = Reader(self.unknowns, self.name, *await self._probe(requests, min(deadline, now + PATIENCE_S), earlier))
        effort = await read(EFFORT)
        if isinstance(effort, Effort):
            effort = replace(
                effort, processes=tuple(replace(one, owner=self._id(one.owner)) for one in effort.processes)
            )
        efforts = self._effort.efforts(effort)
        return replace(view, effort=efforts, gpu=self._effort.load(await read(GPU_LOAD)) if cards else None)

    def _known(self, containers: tuple[Container, ...] | Unknown) -> tuple[Container, ...]:
        """Where they cannot be listed just now, those of the last time."""
        return self._containers if isinstance(containers, Unknown) else containers

    def _owned(self, containers: tuple[Container, ...] | Unknown, only: Set[str] | None = None) -> dict[str, list[str]]:
        """The containers and units of ranks (of these deployments), as probes of processes are asked for them."""
        alive, units = (
            [one for one in ranks if one.alive and (only is None or one.deployment in only)]
            for ranks in (self._known(containers), self._units)
        )
        return {"containers": [one.id for one in alive], "units": [unit_name(one.name) for one in units]}

    def _address(self) -> str:
        return self.cluster.nodes[self.name].data_address or ""

    def _peers(self, deployments: Sequence[Deployment]) -> list[str]:
        """Fabric addresses of the nodes that share a deployment with this one."""
        peers = {node for one in deployments for node in one.nodes if node != self.name}
        return [address for peer in sorted(peers) if (address := self.cluster.nodes[peer].data_address)]

    def _second(
        self, containers: tuple[Container, ...] | Unknown, near: Sequence[Deployment], starting: Set[str]
    ) -> Requests:
        requests: Requests = {PROCESSES.name: {**self._owned(containers), "environ": None}}
        if starting:
            requests[WORK.name] = self._owned(containers, starting)
        if near:
            requests |= {fact.name: None for fact in (ENGINE_PROCESSES, HOLDERS)}
            requests[PATHS.name] = {"paths": sorted({source for one in near for source in one.sources})}
        if self._ended(containers):
            requests[SYSTEM.name] = None
        if _users(near):
            requests[USERS.name] = {"names": _users(near)}
        return requests

    async def _system(self, read: Reader, read_later: Reader, again: bool) -> str | Unknown:
        first = await read(SYSTEM)
        later = await read_later(SYSTEM) if again else first
        return first if isinstance(later, Unknown) else later

    def _ended(self, containers: tuple[Container, ...] | Unknown) -> bool:
        """A rank has ended here. Whether its node shuts down is read once more then, after that was seen: a shutdown that began
        between the two would pass for a failure of the rank (rule 6)."""
        return any(not one.alive for one in (*self._known(containers), *self._units))

    async def _leftovers(
        self, deployments: Sequence[Deployment], states: Mapping[str, State], deadline: float, earlier: HostError | None
    ) -> dict[str, tuple[Process, ...]] | Unknown:
        """Processes whose environment names the deployment, asked only while nothing of it should run."""
        found: dict[str, tuple[Process, ...]] = {}
        for one in deployments:
            if states[one.name].phase not in ASK_LEFTOVERS:
                continue
            environ = {"SPARKD_OWNER": self.owner, "SPARKD_DEPLOYMENT": one.name}
            request: Requests = {PROCESSES.name: {"containers": [], "units": [], "environ": environ}}
            probed, trouble = await self._probe(request, deadline, earlier)
            reader = Reader(self.unknowns, self.name, probed, trouble)
            read = await reader(PROCESSES, key=f"leftovers:{one.name}")
            if isinstance(read, Unknown):
                return read
            found[one.name] = read
        return found

    async def _list_units(
        self, runtimes: Set[str], deadline: float, earlier: HostError | None
    ) -> tuple[Container, ...] | Unknown:
        """Ranks without containers, through the node service: Docker has no part in it."""
        if self.access.process is None or "process" not in runtimes:
            return ()
        if earlier is not None:
            return self.unknowns.unknown(self.name, "node", earlier.why, code_of(earlier))
        try:
            with anyio.fail_after(max(0.2, deadline - clock.now())):
                self._units = await self.access.process.containers()
        except TimeoutError:
            return self.unknowns.unknown(self.name, "units", "its ranks could not be listed in time", "timeout")
        except HostError as error:
            return self.unknowns.unknown(self.name, "units", error.why, code_of(error))
        except DockerError as error:
            return self.unknowns.unknown(self.name, "units", error.why, "unreadable")
        self.unknowns.known(self.name, "units")
        return self._units

    # ---------------------------------------------------------------------------------------------------------- docker

    async def _list_containers(self, unit: DockerUnit | Unknown, deadline: float) -> tuple[Container, ...] | Unknown:
        listed = await self._ask_docker("containers", unit, deadline, self.access.docker.containers)
        if not isinstance(listed, Unknown):
            self._containers = listed
        return listed

    async def _images(
        self, unit: DockerUnit | Unknown, near: Sequence[Deployment], deadline: float
    ) -> dict[str, str | None] | Unknown:
        found: dict[str, str | None] = {}
        for image in sorted({one.image for one in near if one.image}):

            async def ask(image: str = image) -> str | None:
                return await self.access.docker.image(image)

            got = await self._ask_docker(f"image:{image}", unit, deadline, ask)
            if isinstance(got, Unknown):
                return got
            found[image] = got
        return found

    async def _ask_docker(
        self, key: str, unit: DockerUnit | Unknown, deadline: float, ask: Callable[[], Awaitable[T]]
    ) -> T | Unknown:
        """Ask Docker, unless it is stopped: then nobody dials, because a connection would wake it."""
        if isinstance(unit, Unknown):
            return unit
        if not unit.running:
            return self.unknowns.unknown(self.name, key, "Docker is stopped there", DOCKER_STOPPED)
        try:
            with anyio.fail_after(max(0.2, deadline - clock.now())):
                answer = await ask()
        except (DockerMute, TimeoutError):
            return self.unknowns.unknown(self.name, key, "Docker does not answer", "docker-mute")
        except DockerStopped as error:
            return self.unknowns.unknown(self.name, key, error.why, DOCKER_STOPPED)
        except HostError as error:
            return self.unknowns.unknown(self.name, key, error.why, code_of(error))
        except DockerError as error:
            return self.unknowns.unknown(self.name, key, error.why, "unreadable")
        self.unknowns.known(self.name, key)
        return answer
