"""Drift on real nodes: a pair that a person started by hand, beside what sparkd recorded when it worked."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkd.model.rank import IDENTITY

from .commands import wait_for
from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import SPARKD, Daemon
from .layout import ENGINE_IMAGE, MODEL
from .nodes import Lab, Node
from .test_checks import run_checks

BY_HAND = "vllm_by_hand"
SECRET = "hf_planted_in_the_lab_0123"
POLICY = {**FAST_POLICY, "known_good_after": 3, "measure_every": 2}
Rank = dict[str, Any]
MOD = "/lab/fast/mods/mxfp4.py"
MARKERS = f"markers: [{{path: {MOD}, pattern: empty_cache, count: 2}}]\n"
MODDED = "torch.cuda.empty_cache()\n" * 2
WEIGHTS = "/lab/fast/mods/model"
FLIP = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(-1, 2); last = f.read()[0]; f.seek(-1, 2); f.write(bytes([last ^ 1]))"
OLD = "/opt/older/vllm"
OLDER = f"#!/usr/bin/python3\nimport signal\nsignal.pause()  # {OLD} takes whatever it is given\n"


@pytest.fixture(params=[False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.real])], ids=["fast", "real"])
def recorded(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Daemon]:
    """A group that has served for long enough to be recorded; taken down again by the test."""
    real = bool(request.param)
    lab.reset()
    lab.install()
    lab.spark1.write("/etc/sparkd/hf_token", SECRET, 0o644)
    secrets = {"HF_TOKEN": {"file": "/etc/sparkd/hf_token"}}
    daemon = Daemon(lab, real=real)
    for node in lab.nodes:
        node.write(MOD, MODDED)
        node.run(["rm", "-rf", WEIGHTS])
        node.run(["cp", "-r", MODEL, WEIGHTS])
    daemon.configure(files(real, secrets=secrets))
    daemon.up()
    daemon.start()
    wait_for("the group to be recorded", lambda: bool(records(daemon)), 60)
    yield daemon
    for node in lab.nodes:
        node.docker("rm", "-f", BY_HAND, check=False)


def files(real: bool, more: str = "", **changes: Any) -> dict[str, str]:
    more += "  max-num-batched-tokens: 2048\n"
    text = deployment(real, canary_after=2, model=WEIGHTS, **changes).replace("args:\n", f"args:\n{more}")
    return {"sparkd.yaml": cluster(POLICY), f"deployments/{NAME}.yaml": text + MARKERS}


def records(daemon: Daemon) -> list[dict[str, Any]]:
    return list(json.loads(daemon.ctl("known-good", "list", NAME, "--json").stdout)["known_good"])


def drift(daemon: Daemon, *words: str) -> tuple[int, dict[str, Any]]:
    done = daemon.ctl("drift", NAME, "--json", *words, check=False)
    assert SECRET not in done.stdout + done.stderr
    return done.returncode, dict(json.loads(done.stdout))


def nowhere_kept(daemon: Daemon) -> None:
    """Neither in the log nor in anything that sparkd writes: records, evidence, journal; what only looks like one is."""
    assert SECRET not in daemon.log(2000)
    grep = ["grep", "-rlaF", SECRET, "/var/lib/sparkd", "/run/sparkd"]
    assert daemon.head.run(grep, check=False).stdout == ""
    kept = daemon.head.run(["grep", "-rlaF", "max-num-batched-tokens: 2048", "/var/lib/sparkd/known-good"]).stdout
    assert kept


def serious(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["severity"] for one in found["findings"] if one["severity"] != "benign"}


def by_hand(daemon: Daemon, change: Callable[[Rank], None]) -> None:
    """As in the first field report: containers that only sleep, and a script that `docker exec` runs in them."""
    rendered = json.loads(daemon.head.run([SPARKD, "render", NAME, "--format", "json"]).stdout)["ranks"]
    for node, rank in zip(daemon.lab.nodes, rendered, strict=True):
        rank["env"] = {name: text for name, text in rank["env"].items() if name not in IDENTITY}
        rank["env"]["HF_TOKEN"] = SECRET
        change(rank)
        exports = "".join(f"export {name}={shlex.quote(text)}\n" for name, text in rank["env"].items())
        node.write("/tmp/rank.sh", f"#!/bin/bash\n{exports}{shlex.join(rank['argv'])}\n", 0o755)
        _container(node)
    for node in daemon.lab.nodes:
        wait_for(f"the rank on {node.name}", lambda node=node: _runs(node), 30)  # type: ignore[misc]


def _container(node: Node, older: str = "") -> None:
    node.docker("rm", "-f", BY_HAND, check=False)
    how = ["--privileged", "--network", "host", "--ipc", "host", "-v", "/lab:/lab:ro"]
    node.docker("run", "-d", "--name", BY_HAND, *how, ENGINE_IMAGE, "sleep", "infinity")
    if older:
        node.write(OLD, older, 0o755)
        node.docker("cp", OLD.rpartition("/")[0], f"{BY_HAND}:/opt/")
        return
    node.docker("cp", "/tmp/rank.sh", f"{BY_HAND}:/rank.sh")
    node.docker("exec", "-d", BY_HAND, "bash", "/rank.sh")


def _runs(node: Node) -> bool:
    return node.run(["pgrep", "--full", "vllm serve"], check=False).returncode == 0


def drifted(rank: Rank) -> None:
    argv = rank["argv"]
    argv[argv.index("--max-model-len") + 1] = "2048"
    argv[argv.index("--max-num-seqs") + 1] = "8"
    argv.remove("--enforce-eager")
    rank["env"] |= {"NCCL_DEBUG": "INFO", "VLLM_WORKER_MULTIPROC_METHOD": "fork"}


def nested(node: Node, rank: Rank) -> str:
    """The line of the first field report: three shells take a layer of quotes each, and it had quotes for two."""
    ssh = "ssh -i /etc/sparkd/id_ed25519 -o UserKnownHostsFile=/etc/sparkd/known_hosts"
    serve = f'{shlex.join([OLD, "serve", *rank["argv"][2:]])} --compilation-config {{\\"cudagraph_mode\\":\\"FULL\\"}}'
    return f"{ssh} sparkd@{node.address} docker exec -d {BY_HAND} bash -c '\"{serve}\"'\n"


def bytes_and_mods(daemon: Daemon) -> None:
    """On one node a mod that was applied twice, and weights of the same size with one bit turned over."""
    flip = ["python3", "-c", FLIP, f"{WEIGHTS}/model.safetensors"]
    daemon.worker.write(MOD, MODDED * 2)
    daemon.worker.run(flip)
    code, found = drift(daemon, "--hash")
    told = {one["name"]: (one["severity"], one["rank"]) for one in found["findings"] if one["severity"] != "benign"}
    names = (f"marker {MOD} `empty_cache`", "hash model.safetensors")
    assert (code, told) == (5, dict.fromkeys(names, ("breaks", 1))), found
    daemon.worker.write(MOD, MODDED)
    daemon.worker.run(flip)


def ranks_apart(daemon: Daemon) -> None:
    by_hand(daemon, lambda rank: rank["argv"].extend(["--seed", str(rank["rank"])]))
    code, found = drift(daemon, "--against", "wanted")
    seeds = [(one["rank"], one["severity"]) for one in found["findings"] if one["name"] == "--seed"]
    assert (code, (1, "breaks") in seeds) == (5, True), found


def nested_shells(daemon: Daemon) -> None:
    """What they do to JSON: on an engine that takes it, in the script itself, and in a file before a start."""
    head, worker = daemon.lab.nodes
    rank = json.loads(head.run([SPARKD, "render", NAME, "--format", "json"]).stdout)["ranks"][1]
    _container(worker, OLDER)
    head.write("/tmp/start-worker.sh", nested(worker, rank))
    head.run(["bash", "/tmp/start-worker.sh"])
    wait_for("the older engine", lambda: _runs(worker), 20)
    _, found = drift(daemon)
    (eaten,) = [one for one in found["findings"] if one["name"] == "--compilation-config"]
    assert (eaten["severity"], eaten["rank"], eaten["live"]) == ("breaks", 1, "{cudagraph_mode:FULL}"), eaten
    assert "quotes of its JSON were eaten" in eaten["why"]

    head.write("/tmp/good.yaml", daemon.ctl("known-good", "show", NAME).stdout)
    compared = head.run([SPARKD, "compare", "/tmp/good.yaml", "/tmp/start-worker.sh", "--json"], check=False)
    (eaten,) = [one for one in json.loads(compared.stdout)["findings"] if one["name"] == "--compilation-config"]
    assert "quotes of its JSON were eaten" in eaten["why"]

    file = f"deployments/{NAME}.yaml"
    head.write(f"/etc/sparkd/{file}", files(daemon.real, "  compilation-config: '{mode:3}'\n")[file])
    daemon.ctl("reload", check=False)
    code, rows = run_checks(daemon)
    assert (code, rows["flags", None]["status"]) == (4, "fail"), rows["flags", None]
    assert "quotes" in rows["flags", None]["text"]


@pytest.mark.timeout(600)
def test_a_pair_started_by_hand_is_compared_to_the_word(recorded: Daemon) -> None:
    code, found = drift(recorded)
    assert (code, serious(found), found["unread"]) == (0, {}, {}), found
    code, found = drift(recorded, "--against", "wanted")
    assert (code, serious(found)) == (0, {}), found
    (record,) = records(recorded)
    assert record["measured"]["decode_tokens_per_second"], record
    assert SECRET not in recorded.ctl("known-good", "show", NAME).stdout
    bytes_and_mods(recorded)
    recorded.ctl("stop", NAME, "--yes", "--wait", "--timeout", "60")

    code, found = drift(recorded)
    assert (code, serious(found), found["absent"]) == (0, {}, [0, 1]), found

    by_hand(recorded, drifted)
    code, found = drift(recorded)
    assert (code, serious(found)) == (
        5,
        {
            "--max-model-len": "slows",
            "--max-num-seqs": "slows",
            "--enforce-eager": "breaks",
            "NCCL_DEBUG": "unknown",
            "VLLM_WORKER_MULTIPROC_METHOD": "breaks",
        },
    ), found
    fork = next(one for one in found["findings"] if one["name"] == "VLLM_WORKER_MULTIPROC_METHOD")
    assert (fork["known"], fork["live"], fork["rank"]) == (None, "fork", None)
    assert "ShmRingBuffer" in fork["why"]
    assert "first field report" in fork["why"]

    by_hand(recorded, lambda rank: None)
    code, found = drift(recorded)
    assert (code, serious(found)) == (0, {}), found

    # A mod that a person copied into the running container of one rank (first field report).
    recorded.worker.write("/tmp/mod.py", "import torch\n")
    recorded.worker.docker("cp", "/tmp/mod.py", f"{BY_HAND}:/usr/lib/python3/mxfp4.py")
    code, found = drift(recorded)
    (mod,) = [one for one in found["findings"] if one["severity"] != "benign"]
    assert (code, mod["name"], mod["kind"], mod["node"]) == (5, "changed /usr/lib/python3/mxfp4.py", "file", "spark2")
    ranks_apart(recorded)
    nested_shells(recorded)
    nowhere_kept(recorded)
