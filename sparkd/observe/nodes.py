"""One node -> NodeView: its service asked by probes, its Docker only while it runs, all within one deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

from sparkd import clock
from sparkd.engines import ENGINES
from sparkd.errors import DockerError, DockerMute, DockerStopped, HostError, Late
from sparkd.facts import boot, docker, memory, paths, ping, processes, sockets, system
from sparkd.hosts.client import Probed
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import ASK_LEFTOVERS, ASK_SOURCES, State
from sparkd.model.snapshot import Container, DockerUnit, NodeView, Process, Unknown
from sparkd.observe.unknowns import NodeAccess, Reader, Unknowns, code_of

T = TypeVar("T")
Requests = dict[str, Mapping[str, Any] | None]


@dataclass(slots=True)
class NodeLook:
    """Looks at one node; remembers the containers it saw last, for the time that Docker does not answer."""

    name: str
    cluster: Cluster
    access: NodeAccess
    owner: str
    unknowns: Unknowns
    _containers: tuple[Container, ...] = field(default=())

    async def look(self, deployments: Sequence[Deployment], states: Mapping[str, State]) -> NodeView:
        """`deployments`: those with a rank on this node. Takes no longer than the node deadline; never raises."""
        deadline = clock.now() + self.cluster.policy.node_deadline
        probed, trouble = await self._probe(self._first(deployments), deadline)
        read = Reader(self.unknowns, self.name, probed, trouble)
        unit = read("docker", docker.parse)
        self.access.docker_runs = None if isinstance(unit, Unknown) else unit.running
        near = [one for one in deployments if states[one.name].phase in ASK_SOURCES]
        containers = await self._list_containers(unit, deadline)
        images = await self._images(unit, near, deadline)
        later, later_trouble = await self._probe(self._second(containers, near), deadline, trouble)
        read_later = Reader(self.unknowns, self.name, later, later_trouble)
        return NodeView(
            name=self.name,
            boot=read("boot", boot.parse),
            memory=read("meminfo", memory.parse),
            system=read("system", system.parse),
            docker=unit,
            containers=containers,
            processes=read_later("processes", processes.parse),
            sockets=read("sockets", sockets.parse),
            pings=read("ping", ping.parse) if self._peers(deployments) else (),
            images=images,
            paths=read_later("paths", paths.parse) if near else {},
            leftovers=await self._leftovers(deployments, states, deadline, trouble),
        )

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
        requests: Requests = dict.fromkeys(("boot", "meminfo", "system", "docker"))
        requests["sockets"] = {"ports": ports}
        peers = self._peers(deployments)
        if peers:
            requests["ping"] = {"addresses": peers, "timeout_s": 1.0}
        return requests

    def _peers(self, deployments: Sequence[Deployment]) -> list[str]:
        """Fabric addresses of the nodes that share a deployment with this one."""
        peers = {node for one in deployments for node in one.nodes if node != self.name}
        return [address for peer in sorted(peers) if (address := self.cluster.nodes[peer].data_address)]

    def _second(self, containers: tuple[Container, ...] | Unknown, near: Sequence[Deployment]) -> Requests:
        known = self._containers if isinstance(containers, Unknown) else containers
        ids = [container.id for container in known if container.alive]
        requests: Requests = {"processes": {"containers": ids, "units": [], "environ": None}}
        if near:
            sources = sorted({mount.source for one in near for mount in one.container.mounts})
            requests["paths"] = {"paths": sources}
        return requests

    async def _leftovers(
        self, deployments: Sequence[Deployment], states: Mapping[str, State], deadline: float, earlier: HostError | None
    ) -> dict[str, tuple[Process, ...]] | Unknown:
        """Processes whose environment names the deployment, asked only while nothing of it should run."""
        found: dict[str, tuple[Process, ...]] = {}
        for one in deployments:
            if states[one.name].phase not in ASK_LEFTOVERS:
                continue
            environ = {"SPARKD_OWNER": self.owner, "SPARKD_DEPLOYMENT": one.name}
            request: Requests = {"processes": {"containers": [], "units": [], "environ": environ}}
            probed, trouble = await self._probe(request, deadline, earlier)
            reader = Reader(self.unknowns, self.name, probed, trouble)
            read = reader("processes", processes.parse, key=f"leftovers:{one.name}")
            if isinstance(read, Unknown):
                return read
            found[one.name] = read
        return found

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
            return self.unknowns.unknown(self.name, key, "Docker is stopped there", "docker-stopped")
        try:
            with anyio.fail_after(max(0.2, deadline - clock.now())):
                answer = await ask()
        except (DockerMute, TimeoutError):
            return self.unknowns.unknown(self.name, key, "Docker does not answer", "docker-mute")
        except DockerStopped as error:
            return self.unknowns.unknown(self.name, key, error.why, "docker-stopped")
        except HostError as error:
            return self.unknowns.unknown(self.name, key, error.why, code_of(error))
        except DockerError as error:
            return self.unknowns.unknown(self.name, key, error.why, "unreadable")
        self.unknowns.known(self.name, key)
        return answer
