"""A deployment -> the command, the variables and the ports of each vLLM rank, in its own multi-node mode (no Ray)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd.engines.args import canonical, words
from sparkd.engines.base import PortUse, RankFlags
from sparkd.model.config import Deployment, Node
from sparkd.model.printed import whole

COMMAND = ("vllm", "serve")

RESERVED = {
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

RANK_FLAGS = RankFlags(
    number="node-rank",
    worker="headless",
    given=("nnodes", "node-rank", "master-addr", "master-port", "headless", "host", "port", "served-model-name"),
    api=("host", "port", "uds", "api-server-count", "served-model-name"),
    api_group="Frontend",
)

_PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "prefill-context-parallel-size")

_DP_RPC_PORT = 29550
"""Where the head waits for data-parallel engines of other nodes (ParallelConfig.data_parallel_rpc_port)."""


def argv(deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Head and worker differ in `--node-rank` and `--headless` alone.

    Ranks with different flags serve until the first request that shows it (evidence 12).
    """
    served = ("--served-model-name", deployment.served_name) if deployment.served_name else ()
    return (
        *(deployment.command or COMMAND),
        deployment.model,
        *served,
        *("--host", str(deployment.args.get("host", "0.0.0.0")), "--port", str(deployment.port)),
        *words({name: value for name, value in deployment.args.items() if name != "host"}),
        *(_place(deployment, rank, nodes) if len(deployment.nodes) > 1 else ()),
    )


def _place(deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Ranks meet on the fabric: configuration wants a data address for every node of several."""
    head = nodes[deployment.nodes[0]]
    return (
        *("--nnodes", str(len(deployment.nodes)), "--node-rank", str(rank)),
        *("--master-addr", str(head.data_address), "--master-port", str(deployment.master_port)),
        *(("--headless",) if rank else ()),
    )


def env(deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> dict[str, str]:
    """`VLLM_HOST_IP` pins the message queue to the fabric; left alone vLLM picks an interface by itself."""
    address = nodes[deployment.nodes[rank]].data_address
    return {"VLLM_HOST_IP": address} if address and len(deployment.nodes) > 1 else {}


def ports(deployment: Deployment) -> tuple[PortUse, ...]:
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


def world_size(args: Mapping[str, Any]) -> int | None:
    size = 1
    for name in _PARALLEL:
        try:
            size *= int(args.get(name) or 1)
        except (TypeError, ValueError, OverflowError):
            return None
    return size if size > 0 else None


def _whole(value: Any) -> int | None:
    """As a flag's value may be written, None where it is no whole number: to say so is for another check."""
    said = str(value)
    return whole(said) if len(said) < 10 else None
