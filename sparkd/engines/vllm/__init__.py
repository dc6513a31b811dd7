"""vLLM in its own multi-node mode (no Ray). Names and lines are those of vLLM 0.32 and 0.33."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from sparkd.engines.base import Engine, MemoryNeed, PortUse, RankFlags, Variables
from sparkd.engines.vllm import argv, findings, memory, metrics, said, stages
from sparkd.engines.vllm.variables import VARIABLES
from sparkd.model.config import Deployment, Node
from sparkd.model.log_finding import LogFinding
from sparkd.model.machine import Socket
from sparkd.model.printed import Unread
from sparkd.model.snapshot import EngineMetrics

_FILES = files("sparkd.engines.vllm")
_STAMPED = (
    *(
        "vllm*.dist-info/METADATA",
        "vllm*.dist-info/RECORD",
        "vllm/envs.py",
        "vllm/engine/arg_utils.py",
        "vllm/config/*.py",
    ),
    *("vllm/entrypoints/*/cli_args.py", "vllm/reasoning/*.py", "vllm/tool_parsers/*.py"),
    "vllm/entrypoints/openai/tool_parsers/*.py",
)


@dataclass(frozen=True, slots=True)
class Vllm:
    name: str = "vllm"
    command: tuple[str, ...] = argv.COMMAND
    start_order: tuple[str, ...] = ("workers", "head")
    reserved_args: frozenset[str] = frozenset(argv.RESERVED)
    stages: tuple[str, ...] = stages.STAGES
    stage_words: Mapping[str, str] = field(default_factory=lambda: stages.WORDS)
    pages: tuple[str, ...] = said.PAGES
    rank_flags: RankFlags = argv.RANK_FLAGS
    size_flag: str = "tensor-parallel-size"
    share_flag: str | None = "gpu-memory-utilization"
    drain_flag: str | None = "shutdown-timeout"
    lost_json: str = "vLLM 0.32 refuses {} with exit 2, older ones took it silently and served slower"
    health_path: str = "/health"
    metrics_path: str = "/metrics"
    keyed_page: str = "/v1/models"
    variables: Variables = VARIABLES
    stamped: tuple[str, ...] = _STAMPED
    flags_file: Traversable = _FILES / "flags-0.32.json"
    severities_file: Traversable = _FILES / "severities.toml"
    parser_script: Traversable = _FILES / "parser_script.py"

    def argument_fix(self, name: str) -> str:
        return argv.RESERVED[name]

    def argv(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
        return argv.argv(deployment, rank, nodes)

    def env(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> dict[str, str]:
        return argv.env(deployment, rank, nodes)

    def ports(self, deployment: Deployment) -> tuple[PortUse, ...]:
        return argv.ports(deployment)

    def world_size(self, args: Mapping[str, Any]) -> int | None:
        return argv.world_size(args)

    def stage(self, titles: Sequence[str], lines: Sequence[str], health: int | None) -> str | None:
        return stages.stage(titles, lines, health)

    def meeting(self, titles: Sequence[str]) -> str | None:
        return stages.meeting(titles)

    def findings(self, lines: Iterable[str]) -> tuple[LogFinding, ...]:
        return findings.findings(lines)

    def arguments(self, lines: Iterable[str]) -> dict[str, Any] | None:
        return said.arguments(lines)

    def in_use(self, lines: Iterable[str]) -> dict[str, Any]:
        return said.in_use(lines)

    def page(self, path: str, answer: Any) -> dict[str, Any]:
        return said.page(path, answer)

    def metrics(self, text: str) -> EngineMetrics | None | Unread:
        return metrics.metrics(text)

    def completion(
        self, deployment: Deployment, prompt: str, max_tokens: int, whole: bool = False
    ) -> tuple[str, dict[str, Any]]:
        common = {
            "model": deployment.api_name,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},  # chunks are not tokens with speculative decoding
            **({"ignore_eos": True} if whole else {}),
        }
        if deployment.warmup.api == "completions":
            return "/v1/completions", {**common, "prompt": prompt}
        return "/v1/chat/completions", {**common, "messages": [{"role": "user", "content": prompt}]}

    def memory(self, deployment: Deployment, total_bytes: int) -> MemoryNeed:
        return memory.memory(deployment, total_bytes)

    def widowed(self, sockets: Iterable[Socket], deployment: Deployment) -> bool:
        """A headless worker does not see its head go (vllm#32136); its socket to the master does (evidence 03)."""
        return any(s.state == "CLOSE_WAIT" and s.remote_port == deployment.master_port for s in sockets)


ENGINE: Engine = Vllm()
