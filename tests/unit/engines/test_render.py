"""Rank specs, the Docker create request and the forms that people read."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sparkd import render
from sparkd.model.config import ContainerSpec, Deployment, Mount, Node
from sparkd.model.rank import RankSpec
from sparkd.model.size import parse_size

NODES = {
    "a": Node(name="a", address="local", data_address="10.0.0.1"),
    "b": Node(name="b", address="192.168.1.12", data_address="10.0.0.2"),
}
DEPLOYMENT = Deployment(
    name="ds4",
    engine="vllm",
    nodes=("a", "b"),
    image="img:1",
    model="/models/m",
    args={"tensor-parallel-size": 2, "config": {"x": "it's"}},
    env={"OMP_NUM_THREADS": "8", "ODD": "a b'c\"$HOME"},
    node_env={"a": {"VLLM_HOST_IP": "192.168.1.11"}},
    secrets={"HF_TOKEN": "/etc/sparkd/hf_token"},
    container=ContainerSpec(mounts=(Mount(source="/srv/models", target="/models", read_only=True),)),
)


def specs(generation: int = 3, owner: str = "me", **changes: Any) -> tuple[RankSpec, ...]:
    return render.rank_specs(replace(DEPLOYMENT, **changes), NODES, owner, generation)


def container(**changes: Any) -> RankSpec:
    return specs(container=replace(DEPLOYMENT.container, **changes))[0]


def test_rank_specs() -> None:
    head, worker = specs()
    assert (head.name, head.node, worker.name, worker.node) == ("sparkd-ds4-0", "a", "sparkd-ds4-1", "b")
    assert head.env["VLLM_HOST_IP"] == "192.168.1.11"
    assert worker.env["VLLM_HOST_IP"] == "10.0.0.2"
    identity = {name: value for name, value in worker.env.items() if name.startswith("SPARKD_")}
    assert identity == {
        "SPARKD_OWNER": "me",
        "SPARKD_DEPLOYMENT": "ds4",
        "SPARKD_GENERATION": "3",
        "SPARKD_RANK": "1",
    }
    assert worker.labels == {
        "io.sparkd.owner": "me",
        "io.sparkd.deployment": "ds4",
        "io.sparkd.generation": "3",
        "io.sparkd.rank": "1",
        "io.sparkd.spec": worker.digest,
    }


def test_the_spec_label_is_of_what_runs_alone() -> None:
    def labels(**changes: Any) -> list[str]:
        return [spec.labels["io.sparkd.spec"] for spec in specs(**changes)]

    assert labels() == labels(generation=9, owner="other")
    assert len({*labels(), *labels(image="img:2"), *labels(env={})}) == 6


def test_create_body() -> None:
    body = render.create_body(specs()[0], {"HF_TOKEN": "hf_secret"})
    host = body["HostConfig"]
    assert body["Image"] == "img:1"
    assert body["Cmd"][:3] == ["vllm", "serve", "/models/m"]
    assert {"OMP_NUM_THREADS=8", "ODD=a b'c\"$HOME", "HF_TOKEN=hf_secret", "SPARKD_RANK=0"} <= set(body["Env"])
    assert body["Labels"]["io.sparkd.generation"] == "3"
    assert (body["StopSignal"], body["StopTimeout"]) == ("SIGTERM", 30)
    assert not {"Entrypoint", "User", "WorkingDir"} & set(body)
    assert (host["Init"], host["Privileged"], host["NetworkMode"], host["IpcMode"]) == (True, True, "host", "host")
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "3"}}
    assert host["Mounts"] == [{"Type": "bind", "Source": "/srv/models", "Target": "/models", "ReadOnly": True}]
    assert host["DeviceRequests"] == [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    assert not {"Binds", "ShmSize", "Memory"} & set(host)
    json.dumps(body)


def test_create_body_with_everything_given() -> None:
    given = {
        "privileged": False,
        "shm_size": "64g",
        "memory": "1.5GiB",
        "devices": ("/dev/infiniband", "/dev/x:/dev/y:r"),
        "cap_add": ("IPC_LOCK",),
        "ulimits": {"memlock": -1},
        "user": "1000",
        "workdir": "/w",
        "entrypoint": ("/e", "x"),
    }
    body = render.create_body(container(**given), {})
    host = body["HostConfig"]
    assert (body["User"], body["WorkingDir"], body["Entrypoint"]) == ("1000", "/w", ["/e", "x"])
    assert (host["Privileged"], host["ShmSize"], host["Memory"]) == (False, 64 * 1024**3, 3 * 1024**3 // 2)
    assert host["Devices"] == [
        {"PathOnHost": "/dev/infiniband", "PathInContainer": "/dev/infiniband", "CgroupPermissions": "rwm"},
        {"PathOnHost": "/dev/x", "PathInContainer": "/dev/y", "CgroupPermissions": "r"},
    ]
    assert (host["CapAdd"], host["Ulimits"]) == (["IPC_LOCK"], [{"Name": "memlock", "Soft": -1, "Hard": -1}])


def test_an_entrypoint_given_as_none_is_dockers_word_for_none() -> None:
    assert render.create_body(container(entrypoint=()), {})["Entrypoint"] == [""]


@pytest.mark.parametrize(("changes", "gpus"), [({}, True), ({"hardware": "cpu"}, False), ({"hardware": "gpu"}, True)])
def test_a_cpu_deployment_never_asks_for_gpus(changes: Mapping[str, Any], gpus: bool) -> None:
    spec = specs(**changes)[0]
    assert ("DeviceRequests" in render.create_body(spec, {})["HostConfig"]) is gpus
    assert ("--gpus all" in render.as_docker(spec)) is gpus
    assert render.as_json([spec])["ranks"][0]["container"]["gpus"] == ("all" if gpus else None)


def test_no_gpus_where_none_are_wanted() -> None:
    assert "DeviceRequests" not in render.create_body(container(gpus=None), {})["HostConfig"]


def docker_words(spec: RankSpec) -> list[str]:
    """What a shell makes of the printed command."""
    return shlex.split(render.as_docker(spec).replace("\\\n", " "))


def test_as_docker_says_the_same_as_the_request() -> None:
    spec = container(shm_size="64g", devices=("/dev/infiniband",), ulimits={"memlock": -1}, entrypoint=("/e", "x"))
    found = docker_words(spec)
    assert found[:5] == ["docker", "run", "-d", "--name", "sparkd-ds4-0"]
    assert found[-len(spec.argv) - 2 :] == ["img:1", "x", *spec.argv]
    pairs = list(pairwise(found))
    given = {value for option, value in pairs if option == "-e"}
    reference = "HF_TOKEN=<from /etc/sparkd/hf_token>"
    assert given == {f"{name}={value}" for name, value in spec.env.items()} | {reference}
    assert {value for option, value in pairs if option == "--label"} == {f"{k}={v}" for k, v in spec.labels.items()}
    for pair in (
        ("--restart", "no"),
        ("--network", "host"),
        ("--ipc", "host"),
        ("--gpus", "all"),
        ("--shm-size", "64g"),
        ("--device", "/dev/infiniband"),
        ("--ulimit", "memlock=-1"),
        ("--entrypoint", "/e"),
        ("--mount", "type=bind,source=/srv/models,target=/models,readonly"),
        ("--log-opt", "max-size=50m"),
        ("--stop-timeout", "30"),
    ):
        assert pair in pairs
    assert {"--init", "--privileged"} <= set(found)


def test_a_mount_with_a_comma_is_quoted_for_dockers_csv() -> None:
    spec = container(mounts=(Mount(source='/a,b"c', target="/t"),))
    assert 'type=bind,"source=/a,b""c",target=/t' in docker_words(spec)


def test_as_json() -> None:
    page = render.as_json(specs())
    head = page["ranks"][0]
    assert (page["schema"], [rank["rank"] for rank in page["ranks"]]) == (1, [0, 1])
    assert set(head) == {"rank", "node", "argv", "env", "container", "files"}
    assert head["env"]["HF_TOKEN"] == "<from /etc/sparkd/hf_token>"
    assert (head["container"]["image"], head["container"]["name"], head["files"]) == ("img:1", "sparkd-ds4-0", [])
    json.dumps(page)


def test_as_script_runs_the_same_words_in_a_real_shell() -> None:
    """`printf` in the place of vllm shows what the shell makes of the script, quotes, spaces and all."""
    spec = specs(secrets={}, command=("/usr/bin/printf", "%s\\0"))[0]
    script = render.as_script(spec).replace("exec ", 'printf "%s\\0" "$ODD"\nexec ')
    seen = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True).stdout.split("\0")
    assert seen[:-1] == ["a b'c\"$HOME", *spec.argv[2:]]


def test_as_script_reads_secrets_from_their_files() -> None:
    assert 'export HF_TOKEN="$(cat /etc/sparkd/hf_token)"' in render.as_script(specs()[0])


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("64g", 64 * 1024**3), ("6GiB", 6 * 1024**3), ("512M", 512 * 1024**2), ("1.5 kb", 1536)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "g", "-1g", "64 gigs", "1e3", "6GG"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


def test_more_bytes_than_there_can_be_is_no_size() -> None:
    with pytest.raises(ValueError, match="more than there can be"):
        parse_size("9" * 400 + "g")
