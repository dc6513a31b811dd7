"""vLLM in its own multi-node mode (no Ray): argument vectors per rank, and what its logs, titles and metrics say.

Names and lines are those of vLLM 0.32 and 0.33; the log lines were recorded on 0.32.0 over two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkd.engines import vllm_memory, vllm_said
from sparkd.engines.args import canonical, words
from sparkd.engines.base import MemoryNeed, PortUse
from sparkd.engines.prometheus import Samples, samples
from sparkd.model.config import Deployment, Node
from sparkd.model.machine import Socket
from sparkd.model.printed import Unread, shown, whole
from sparkd.model.snapshot import EngineMetrics

_RESERVED = {
    "nnodes": "list the nodes under `nodes:`",
    "node-rank": "the order of `nodes:` is the rank",
    "master-addr": "set `data_address` of the first node in sparkd.yaml",
    "master-port": "write `master_port: …` at the top level of this file",
    "headless": "leave it out: sparkd adds it to every rank but the first",
    "host": "leave it out: sparkd adds `--host 0.0.0.0`",
    "port": "write `port: …` at the top level of this file",
    "served-model-name": "write `served_name: …` at the top level of this file",
    "model": "write `model: …` at the top level of this file",
    "model-tag": "write `model: …` at the top level of this file",
    "api-key": "write `secrets: {VLLM_API_KEY: {file: /etc/sparkd/api_key}}`: secrets are references",
    "uds": "leave it out: sparkd asks the engine over TCP",
    "ssl-keyfile": "leave it out: sparkd asks the engine in plain HTTP; put TLS in a proxy before it",
    "ssl-certfile": "leave it out: sparkd asks the engine in plain HTTP; put TLS in a proxy before it",
}

_PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "prefill-context-parallel-size")

_DP_RPC_PORT = 29550
"""Where the head waits for data-parallel engines of other nodes (ParallelConfig.data_parallel_rpc_port)."""

_STAGES = ("process", "engine", "rendezvous", "weights", "compile", "kv-cache", "graphs", "api", "ready")

_STAGE_TITLES = (
    ("engine", re.compile(r"::EngineCore(_DP\d+)?\b")),
    # A worker has its `_TPn` only once all ranks have met; until then it waits for peers (evidence 07).
    ("rendezvous", re.compile(r"::Worker(\s|$)")),
    ("weights", re.compile(r"::Worker(_[A-Z]+\d+)+\b")),
)

_STAGE_LINES = (
    ("engine", re.compile(r"Initializing a V1 LLM engine|headless multiproc executor, with head node")),
    ("rendezvous", re.compile(r"distributed_init_method=tcp:")),
    ("weights", re.compile(r"Starting to load model|Loading safetensors checkpoint|Loading weights took")),
    # "… disabling torch.compile, CUDAGraphs …" is logged long before, with --enforce-eager.
    ("compile", re.compile(r"Dynamo bytecode transform|torch\.compile (takes|took)|Compiling a graph|Start compiling")),
    ("kv-cache", re.compile(r"KV cache size:|GiB for KV cache|Available KV cache memory")),
    ("graphs", re.compile(r"Capturing CUDA graph|Graph capturing finished")),
    ("api", re.compile(r"Starting vLLM server on|Application startup complete|Uvicorn running on")),
)

_FINDINGS = (
    ("worker-exception", re.compile(r"WorkerProc hit an exception")),
    ("worker-died", re.compile(r"Worker proc \S+ died unexpectedly")),
    ("engine-dead", re.compile(r"EngineDeadError|EngineCore encountered a fatal error|Engine core proc \S+ died")),
    # Comes before the EngineDeadError of an ordinary `docker stop`; a crash lacks it (evidence 17a).
    ("shutdown-triggered", re.compile(r"\[shutdown\] API server: shutdown triggered")),
    # Normal while compiling; a stuck peer while serving (evidence 04, 05a: 60 s after the fault, level INFO).
    ("peer-hint", re.compile(r"No available shared memory broadcast block found")),
)


_COUNTERS = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
"""Field of EngineMetrics -> its name on the page; the cache's second one is that before 0.10."""
_SHARES = frozenset(_COUNTERS["kv_cache_usage"])
"""Of which the highest counts, not the sum."""
_MOST = 2.0**53
_MOST_DRAFTED = 64
"""Tokens that are drafted for one step."""


@dataclass(frozen=True, slots=True)
class Vllm:
    name: str = "vllm"
    command: tuple[str, ...] = ("vllm", "serve")
    start_order: tuple[str, ...] = ("workers", "head")
    reserved_args: frozenset[str] = frozenset(_RESERVED)
    stages: tuple[str, ...] = _STAGES
    pages: tuple[str, ...] = vllm_said.PAGES

    def argument_fix(self, name: str) -> str:
        return _RESERVED[name]

    def argv(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
        """Head and worker differ in `--node-rank` and `--headless` alone.

        Ranks with different flags serve until the first request that shows it (evidence 12).
        """
        served = ("--served-model-name", deployment.served_name) if deployment.served_name else ()
        return (
            *(deployment.command or self.command),
            deployment.model,
            *served,
            *("--host", str(deployment.args.get("host", "0.0.0.0")), "--port", str(deployment.port)),
            *words({name: value for name, value in deployment.args.items() if name != "host"}),
            *(_place(deployment, rank, nodes) if len(deployment.nodes) > 1 else ()),
        )

    def env(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> dict[str, str]:
        """`VLLM_HOST_IP` pins the message queue to the fabric; left alone vLLM picks an interface by itself."""
        address = nodes[deployment.nodes[rank]].data_address
        return {"VLLM_HOST_IP": address} if address and len(deployment.nodes) > 1 else {}

    def ports(self, deployment: Deployment) -> tuple[PortUse, ...]:
        args = {canonical(name): value for name, value in deployment.args.items()}
        several = len(deployment.nodes) > 1
        remote = several and (_whole(args.get("data-parallel-size")) or 1) > 1  # engines on one node use no port
        found = (
            ("api", deployment.port),
            ("master", deployment.master_port if several else None),
            ("gRPC", _whole(args.get("grpc-port"))),
            ("data-parallel RPC", _whole(args.get("data-parallel-rpc-port", _DP_RPC_PORT)) if remote else None),
        )
        return tuple(PortUse(0, port, what) for what, port in found if port is not None and 0 < port < 65536)

    def world_size(self, args: Mapping[str, Any]) -> int | None:
        size = 1
        for name in _PARALLEL:
            try:
                size *= int(args.get(name) or 1)
            except (TypeError, ValueError, OverflowError):
                return None
        return size if size > 0 else None

    def stage(self, titles: Sequence[str], lines: Sequence[str], health: int | None) -> str | None:
        if health == 200:
            return "ready"
        titles, lines = list(shown(titles)), list(shown(lines))
        reached = {"process"} if titles or lines else set()
        reached |= {stage for stage, pattern in _STAGE_TITLES if any(map(pattern.search, titles))}
        reached |= {stage for stage, pattern in _STAGE_LINES if any(map(pattern.search, lines))}
        return max(reached, key=_STAGES.index, default=None)

    def findings(self, lines: Iterable[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for line in shown(lines):
            found.update((name, None) for name, pattern in _FINDINGS if pattern.search(line))
        return tuple(found)

    def arguments(self, lines: Iterable[str]) -> dict[str, Any] | None:
        return vllm_said.arguments(lines)

    def in_use(self, lines: Iterable[str]) -> dict[str, Any]:
        return vllm_said.in_use(lines)

    def page(self, path: str, answer: Any) -> dict[str, Any]:
        return vllm_said.page(path, answer)

    def metrics(self, text: str) -> EngineMetrics | None | Unread:
        page = samples(text)
        if isinstance(page, Unread):
            return page
        read = {field: _counted(page, *names) for field, names in _COUNTERS.items()}
        odd = next((value for value in read.values() if isinstance(value, Unread)), None)
        found = {field: value for field, value in read.items() if not isinstance(value, Unread | None)}
        if not {"prompt_tokens", "generation_tokens"} & found.keys():
            return odd
        return odd or EngineMetrics(
            running=found.get("running", 0.0),
            waiting=found.get("waiting", 0.0),
            prompt_tokens=found.get("prompt_tokens", 0.0),
            generation_tokens=found.get("generation_tokens", 0.0),
            kv_cache_usage=found.get("kv_cache_usage"),
            acceptance=_acceptance(page),
            kv_cache_tokens=_cache_tokens(page),
        )

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
        return vllm_memory.memory(deployment, total_bytes)

    def widowed(self, sockets: Iterable[Socket], deployment: Deployment) -> bool:
        """A headless worker does not see its head go (vllm#32136); its socket to the master does (evidence 03)."""
        return any(s.state == "CLOSE_WAIT" and s.remote_port == deployment.master_port for s in sockets)


def _place(deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Ranks meet on the fabric: configuration wants a data address for every node of several."""
    head = nodes[deployment.nodes[0]]
    return (
        *("--nnodes", str(len(deployment.nodes)), "--node-rank", str(rank)),
        *("--master-addr", str(head.data_address), "--master-port", str(deployment.master_port)),
        *(("--headless",) if rank else ()),
    )


def _whole(value: Any) -> int | None:
    """As a flag's value may be written, None where it is no whole number: to say so is for another check."""
    said = str(value)
    return whole(said) if len(said) < 10 else None


def _counted(page: Samples, *names: str) -> float | None | Unread:
    """The first of these that the page has, summed over all engines. Above 2^53 a float does not move with a token any more, and
    a stall would look like a lie."""
    for name in names:
        value = page.total(name) if name not in _SHARES else page.highest(name)
        if value is not None:
            counts = isinstance(value, Unread) or value <= _MOST
            return value if counts else Unread(f"{name} is {value:g}, which no counter is")
    return None


def _acceptance(page: Samples) -> tuple[float, ...]:
    """Of the drafts, the part that was accepted at each position; nothing where the page does not tell in numbers."""
    drafts = page.total("vllm:spec_decode_num_drafts_total")
    accepted = page.by_label("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
    if drafts is None or isinstance(drafts, Unread) or drafts < 1:
        return ()
    parts = [accepted[key] / drafts for key in sorted(accepted, key=lambda label: whole(label) or 0)]
    return tuple(parts) if len(parts) <= _MOST_DRAFTED and all(0 <= part <= 1 for part in parts) else ()


def _cache_tokens(page: Samples) -> int | None:
    """Blocks times their size; vLLM tells both as labels."""
    found = (
        (whole(one.get("num_gpu_blocks", "")), whole(one.get("block_size", "")))
        for one in page.labels("vllm:cache_config_info")
    )
    tokens = sum(blocks * size for blocks, size in found if blocks and size)
    return tokens if 0 < tokens <= _MOST else None
