"""An engine that does not exist, in a folder as `sparkd/engines` has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any

from sparkd.engines.args import words
from sparkd.engines.base import Engine, MemoryNeed, PortUse, RankFlags, Variables
from sparkd.model.config import Deployment, Node
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.machine import Socket
from sparkd.model.printed import Unread
from sparkd.model.snapshot import EngineMetrics

RANK_FLAGS = RankFlags(number="seat", worker="mute", given=("seat", "mute"))
VARIABLES = Variables(own="TOY_", key="TOY_KEY", address="TOY_ADDRESS")


@dataclass(frozen=True, slots=True)
class Toy:
    name: str = "toy"
    command: tuple[str, ...] = ("toy-server",)
    start_order: tuple[str, ...] = ("head", "workers")
    reserved_args: frozenset[str] = frozenset({"seat"})
    stages: tuple[str, ...] = ("winding", "ready")
    stage_words: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()
    flags_file: Traversable | None = None
    severities_file: Traversable | None = None
    parser_script: Traversable | None = None
    rank_flags: RankFlags = RANK_FLAGS
    size_flag: str = "springs"
    share_flag: str | None = None
    drain_flag: str | None = None
    lost_json: str = "it plays {} as noise"
    health_path: str = "/toy/alive"
    metrics_path: str = "/toy/numbers"
    keyed_page: str = "/toy/secrets"
    variables: Variables = VARIABLES
    stamped: tuple[str, ...] = ()

    def argument_fix(self, name: str) -> str:
        return "the order of `nodes:` is the seat"

    def argv(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
        return (*self.command, deployment.model, "--seat", str(rank), *words(deployment.args))

    def env(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> dict[str, str]:
        return {"TOY_ADDRESS": str(nodes[deployment.nodes[rank]].data_address)}

    def ports(self, deployment: Deployment) -> tuple[PortUse, ...]:
        return (PortUse(0, deployment.port, "api"),)

    def world_size(self, args: Mapping[str, Any]) -> int | None:
        return int(args.get("springs", 1))

    def meeting(self, titles: Sequence[str]) -> str | None:
        return None

    def stage(self, titles: Sequence[str], lines: Sequence[str], health: int | None) -> str | None:
        return "ready" if health == 200 else "winding"

    def findings(self, lines: Iterable[str]) -> tuple[LogFinding, ...]:
        return tuple(LogFinding("spring-broke", FindingKind.FAULT) for line in lines if "SPROING" in line)[:1]

    def arguments(self, lines: Iterable[str]) -> dict[str, Any] | None:
        return None

    def in_use(self, lines: Iterable[str]) -> dict[str, Any]:
        return {}

    def page(self, path: str, answer: Any) -> dict[str, Any]:
        return {}

    def metrics(self, text: str) -> EngineMetrics | None | Unread:
        return EngineMetrics(0.0, 0.0, 0.0, float(text))

    def completion(
        self, deployment: Deployment, prompt: str, max_tokens: int, whole: bool = False
    ) -> tuple[str, dict[str, Any]]:
        return "/toy/play", {"tune": prompt, "max_tokens": max_tokens}

    def memory(self, deployment: Deployment, total_bytes: int) -> MemoryNeed:
        return MemoryNeed(7 << 30, "free", "7 GiB of springs")

    def widowed(self, sockets: Iterable[Socket], deployment: Deployment) -> bool:
        return False


ENGINE: Engine = Toy()
