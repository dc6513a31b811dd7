"""What the command line and the environment ask of one rank: two values every process of the rank carries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = "0.32.0"
"""Of the vLLM whose behaviour is simulated."""


@dataclass(frozen=True)
class Options:
    """One `vllm serve` command line; `given` holds the non-default arguments as vLLM prints them."""

    model: str
    names: tuple[str, ...]
    host: str = ""
    port: int = 8000
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: bool = False
    nnodes: int = 1
    rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 29501
    headless: bool = False
    max_model_len: int = 4096
    max_num_seqs: int = 256
    draft_tokens: int = 0
    reasoning: bool = False
    api_keys: tuple[str, ...] = ()
    access_log: bool = True
    shutdown_timeout_s: float = 0.0
    rendezvous_timeout_s: float = 1800.0
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """The rendezvous address as log lines write it."""
        return f"{self.master_addr}:{self.master_port}"

    @property
    def facts(self) -> dict[str, Any]:
        """The fields log lines are filled in with."""
        bind = self.host or "0.0.0.0"
        return {**vars(self), "master": self.master, "bind": bind, "concurrency": 2097152 / self.max_model_len}

    @property
    def worker_title(self) -> str:
        """The rank's process title once the group is formed: `VLLM::Worker_TP1`, `VLLM::Worker_PP1_TP0`, …"""
        tensor = self.rank % self.tensor_parallel
        title = "VLLM::Worker"
        if self.pipeline_parallel > 1:
            title += f"_PP{self.rank // self.tensor_parallel}"
        if self.tensor_parallel > 1:
            title += f"_TP{tensor}"
        return title + (f"_EP{tensor}" if self.expert_parallel else "")


@dataclass(frozen=True)
class Sim:
    """The environment's settings, all with the meaning and unit the package docstring gives."""

    start_s: float
    rate: float
    stop_s: float
    dead_s: float
    shm_dir: str
    faults: str
    rpc_timeout_s: float
    hint_interval_s: float
    stats_interval_s: float


def from_environment(environment: Mapping[str, str] = os.environ) -> Sim:
    """Reads SPARKD_SIM_* and the vLLM variables that set limits; raises ValueError on a word where a number belongs."""

    def number(name: str, default: float) -> float:
        return float(environment.get(name) or default)

    return Sim(
        start_s=number("SPARKD_SIM_START_S", 3.0),
        rate=number("SPARKD_SIM_RATE", 40.0),
        stop_s=number("SPARKD_SIM_STOP_S", 9.0),
        dead_s=number("SPARKD_SIM_DEAD_S", 1.0),
        shm_dir=environment.get("SPARKD_SIM_SHM_DIR") or "/dev/shm",
        faults=environment.get("SPARKD_SIM_FAULTS", ""),
        rpc_timeout_s=number("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", 300.0),
        hint_interval_s=number("VLLM_RINGBUFFER_WARNING_INTERVAL", 60.0),
        stats_interval_s=number("VLLM_LOG_STATS_INTERVAL", 10.0),
    )
