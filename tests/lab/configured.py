"""The files under /etc/sparkd that the lab's tests are configured with, for the fast and the real engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .layout import ENGINE_IMAGE, MODEL, PLANS, REAL_VLLM

NAME = "tiny"
FAST = "/lab/fast/sparkd/demo/engine/vllm"

CLUSTER = """\
cluster: lab
nodes:
  spark1: {{address: local, data_address: {fabric1}}}
  spark2: {{address: {worker}, user: sparkd, port: 22, key: /etc/sparkd/id_ed25519, data_address: {fabric2}}}
policy: {policy}
notify: {notify}
cleanup: {cleanup}
"""

DEPLOYMENT = """\
name: {name}
engine: vllm
{runtime}
hardware: cpu
nodes: {nodes}
autostart: {autostart}
command: [{command}, serve]
model: {model}
served_name: tiny
port: 8000
master_port: 29501
env: {env}
node_env: {node_env}
secrets: {secrets}
args:
  max-model-len: 1024
  enforce-eager: true
  max-num-seqs: 4
  gpu-memory-utilization: 0.1
  tensor-parallel-size: {size}
health: {{canary_after: {canary_after}, sanity: {sanity}}}
stop: {{grace: {grace}}}
start: {{timeout: 300, warm_timeout: 300}}
"""

DOCKER = """\
runtime: docker
image: {image}
container: {{gpus: null, mounts: [{{source: /lab, target: /lab, read_only: true}}]}}"""

PROCESS = """\
runtime: process
user: {user}
container: {container}"""

# Clocks shortened for the fast engine; the real one runs with the clocks people have, but for the long ones.
FAST_POLICY = {
    "period": 2,
    "backoff": {"first": 2, "max": 10},
    "budget": {"starts": 200, "per": 3600, "per_day": 500},
    "dead_after": 6,
    "stuck_after": 8,
    "silent_after": 8,
    "suspect_after": 10,
    "stalled_after": 20,
    "canary_timeout": 5,
    "hold_recheck": 2,
    "notice_after": 10,
}
REAL_POLICY = {**FAST_POLICY, "period": 5, "backoff": {"first": 5, "max": 30}, "canary_timeout": 15}
ENV = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
FAST_ENV = {**ENV, "SPARKD_SIM_START_S": "2", "SPARKD_SIM_STOP_S": "1", "SPARKD_SIM_DEAD_S": "1"}
# TORCHDYNAMO_DISABLE: nothing is compiled at the first request, which keeps a start under a minute on two cores.
REAL_ENV = {**ENV, "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"}


def deployment(
    real: bool = False, name: str = NAME, process: bool = False, nodes: int = len(PLANS), **changes: Any
) -> str:
    """The file of a deployment on the first `nodes` nodes, in containers or, with `process`, as units of systemd."""
    plans = PLANS[:nodes]
    values: dict[str, Any] = {
        "name": name,
        "nodes": [plan.name for plan in plans],
        "size": nodes,
        "node_env": {plan.name: {"GLOO_SOCKET_IFNAME": plan.fabric_link} for plan in plans},
        "secrets": {},
        "user": "ranks",
        "container": {},
        "autostart": "false",
        "image": ENGINE_IMAGE,
        "command": REAL_VLLM if real else FAST,
        "model": MODEL,
        "env": REAL_ENV if real else FAST_ENV,
        "canary_after": 30 if real else 6,
        "sanity": "false" if real else "true",  # the weights of the real one are random
        "grace": 15 if real else 5,
        **changes,
    }
    # JSON is YAML.
    values.update((key, json.dumps(values[key])) for key in ("env", "node_env", "nodes", "secrets", "container"))
    return DEPLOYMENT.format(**values, runtime=(PROCESS if process else DOCKER).format(**values))


# The fast engine needs no memory, and the page cache is the whole machine's, which other tests fill and measure.
KEEP_CACHES = {"drop_caches": False}
AS_PEOPLE_HAVE_IT: dict[str, Any] = {}


def cluster(
    policy: Mapping[str, Any],
    notify: Mapping[str, Any] | None = None,
    cleanup: Mapping[str, Any] = KEEP_CACHES,
) -> str:
    return CLUSTER.format(
        fabric1=PLANS[0].data_address,
        fabric2=PLANS[1].data_address,
        worker=PLANS[1].address,
        policy=json.dumps(policy),
        notify=json.dumps(notify or {}),
        cleanup=json.dumps(cleanup),
    )
