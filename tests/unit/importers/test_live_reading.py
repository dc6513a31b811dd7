"""A survey of two nodes -> the side that runs: by main processes, through whatever started them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkd.checks.shared.scene import Answer, Ask, Place, Scene, Text
from sparkd.comparing.around import changed_in
from sparkd.comparing.live import beside, live, reading, wanted
from sparkd.comparing.mains import processes
from sparkd.comparing.sides import with_known
from sparkd.drift import Difference, compare
from sparkd.drift.known_good import as_yaml
from sparkd.engines.flags import Flag
from sparkd.engines.tables import Tables, shipped
from sparkd.facts import Fact
from sparkd.facts.caches import CACHES, Cache
from sparkd.facts.image import IMAGE, Image
from sparkd.facts.inspected import INSPECTED, Inspected
from sparkd.facts.links import LINKS, Interface, Links
from sparkd.facts.model import MODEL, Model, Shard
from sparkd.facts.pressure import PRESSURE, Pressure, Swap
from sparkd.facts.programs import PROGRAMS, Program
from sparkd.facts.versions import VERSIONS
from sparkd.model.config import Cleanup, Cluster, ContainerSpec, Deployment, Mount, Node
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.printed import Unread
from sparkd.model.secret import HIDDEN
from sparkd.model.snapshot import Container, NodeView, Unknown
from sparkd.render import create_body, rank_specs

NODES = ("spark1", "spark2")
CLUSTER = Cluster(
    cluster="desk",
    nodes={
        "spark1": Node(name="spark1", address="local", data_address="10.0.0.1"),
        "spark2": Node(name="spark2", address="192.168.1.12", data_address="10.0.0.2"),
    },
)
DEPLOYMENT = Deployment(
    name="demo",
    engine="vllm",
    nodes=NODES,
    image="vllm:1",
    model="/models/m",
    served_name="m",
    container=ContainerSpec(mounts=(Mount(source="/home/models", target="/models"),)),
    env={"OMP_NUM_THREADS": "8", "VLLM_USE_FLASHINFER_SAMPLER": "1"},
    args={"max-model-len": 1024, "max-num-seqs": 4, "tensor-parallel-size": 2, "enforce-eager": True},
)
IMAGE_ID = "sha256:" + "1" * 64
IMAGE_ENV = ["PATH=/usr/bin", "NCCL_VERSION=2.27", "CUDA_VERSION=13.0"]
IDS = {"spark1": "a" * 64, "spark2": "b" * 64}


def view(name: str) -> NodeView:
    memory = Memory(128 << 30, 100 << 30, 110 << 30, 0, 0, 0)
    boot = Boot(f"{name}-boot1", 10, 86400.0, name)
    return NodeView(name, boot, memory, "running", DockerUnit(running=True, pid=1), (), (), ())


def inspected(node: str, **changes: Any) -> Inspected:
    """What Docker says of the container that sparkd makes of this deployment there."""
    spec = rank_specs(DEPLOYMENT, CLUSTER.nodes, "us", 7)[NODES.index(node)]
    body = create_body(spec, {})
    container = {
        "Id": IDS[node],
        "Name": f"/{spec.name}",
        "Image": IMAGE_ID,
        "Created": "2026-11-28T03:55:42Z",
        "State": {"Status": "running", "ExitCode": 0},
        "HostConfig": {**body["HostConfig"], "ShmSize": 64 << 20},
        "Config": {
            "Image": "vllm:1",
            "Env": [*body["Env"], *IMAGE_ENV],
            "Cmd": body["Cmd"],
            "Labels": body["Labels"],
            "WorkingDir": "/workspace",
        },
        "Mounts": [{"Type": "bind", "Source": "/home/models", "Destination": "/models", "RW": True}],
        **changes,
    }
    image = {"Id": IMAGE_ID, "Config": {"Env": IMAGE_ENV, "WorkingDir": "/workspace"}}
    return Inspected(version="26.1", containers={IDS[node]: container}, images={IMAGE_ID: image})


def program(node: str, *, drop: tuple[str, ...] = (), add: tuple[str, ...] = (), **env: str | None) -> Program:
    spec = rank_specs(DEPLOYMENT, CLUSTER.nodes, "us", 7)[NODES.index(node)]
    words = ["/usr/bin/python3", "/usr/local/bin/vllm", *spec.argv[1:]]
    for word in drop:
        words.remove(word)
    given = {**dict(pair.split("=", 1) for pair in IMAGE_ENV), **spec.env, "HOSTNAME": node, **env}
    return Program(
        pid=42,
        ppid=1,
        start_ticks=1000,
        owner=IDS[node],
        argv=(*words, *add),
        env={name: text for name, text in given.items() if text is not None},
        libraries={"/usr/lib/libnccl.so.2": "ab" * 32},
    )


AROUND: Mapping[Fact[Any], Any] = {
    VERSIONS: {"kernel": "6.14", "architecture": "aarch64", "driver": "580.95"},
    LINKS: None,
    MODEL: Model("dir", True, True, "", (Shard("model-1.safetensors", 100, 100),)),
    CACHES: (Cache("/home/x/.cache/vllm", 100, 3),),
    PRESSURE: Pressure(None, None, ()),
    IMAGE: Image(IMAGE_ID, "arm64", tuple(IMAGE_ENV)),
}


def scene(
    programs: Mapping[str, Program | None] | None = None,
    docker: Mapping[str, Inspected | Unknown] | None = None,
    around: Mapping[Fact[Any], Mapping[str, Any]] | None = None,
    **deployment: Any,
) -> Scene:
    """Two nodes on which the deployment runs as it is wanted, but for what is given."""
    facts: dict[tuple[str, str], Any] = {}
    for node in NODES:
        for fact, value in AROUND.items():
            facts[node, fact.name] = (around or {}).get(fact, {}).get(node, value)
        address = CLUSTER.nodes[node].data_address or ""
        links = Links((Interface(f"np{node}", "up", 200000, 9000, (address,)),), ())
        facts[node, LINKS.name] = (around or {}).get(LINKS, {}).get(node, links)
        found = {**{one: program(one) for one in NODES}, **(programs or {})}[node]
        facts[node, PROGRAMS.name] = () if found is None else (found,)
        facts[node, INSPECTED.name] = (docker or {}).get(node, inspected(node))
    return Scene(
        cluster=CLUSTER,
        deployment=replace(DEPLOYMENT, **deployment),
        owner="us",
        running=True,
        nodes={node: view(node) for node in NODES},
        facts=facts,
    )


def differences(before: Scene, after: Scene) -> list[Difference]:
    seen = live(after)
    return list(compare(beside(live(before).side, seen), seen.side))


def said(found: list[Difference]) -> set[tuple[str, int | None, str]]:
    return {(one.name, one.rank, str(one.severity)) for one in found}


def test_what_runs_as_it_is_wanted_differs_in_nothing() -> None:
    seen = live(scene())
    assert (seen.unread, seen.absent, seen.ended) == ({}, (), ())
    next_start = wanted(scene())
    assert compare(beside(seen.side, next_start), next_start.side) == ()
    assert differences(scene(), scene()) == []


def test_a_drifted_pair_is_told_to_the_word() -> None:
    drifted = {
        node: replace(
            one := program(
                node,
                drop=("--enforce-eager",),
                add=("--max-num-seqs", "8", "--max-model-len=2k"),
                VLLM_WORKER_MULTIPROC_METHOD="fork",
                NCCL_DEBUG="INFO",
            ),
            argv=one.argv,
        )
        for node in NODES
    }
    found = differences(scene(), scene(drifted))
    assert said(found) == {
        ("--max-num-seqs", None, "slows"),
        ("--max-model-len", None, "slows"),
        ("--enforce-eager", None, "breaks"),
        ("VLLM_WORKER_MULTIPROC_METHOD", None, "breaks"),
        ("NCCL_DEBUG", None, "unknown"),
    }
    fork = next(one for one in found if one.name == "VLLM_WORKER_MULTIPROC_METHOD")
    assert (fork.known, fork.live) == (None, "fork")
    assert "ShmRingBuffer" in str(fork.why)


def test_a_container_that_only_sleeps_is_read_by_the_process_in_it() -> None:
    """`docker run … sleep infinity`, then `docker exec … bash /workspace/vllm-head.sh` (first field report)."""
    docker, programs = {}, {}
    for node in NODES:
        made = inspected(node)
        container = made.containers[IDS[node]]
        config = {**container["Config"], "Cmd": ["sleep", "infinity"], "Env": IMAGE_ENV, "Labels": {}}
        docker[node] = replace(made, containers={IDS[node]: {**container, "Config": config}})
        unmarked: dict[str, Any] = {f"SPARKD_{name}": None for name in ("OWNER", "DEPLOYMENT", "GENERATION", "RANK")}
        programs[node] = program(node, **unmarked)
    seen = live(scene(programs, docker))
    assert (seen.absent, seen.ended) == ((), ())
    assert compare(live(scene()).side, seen.side) == ()


def test_for_a_container_that_sleeps_without_an_engine_the_next_start_is_compared() -> None:
    made = inspected("spark1")
    container = made.containers[IDS["spark1"]]
    config = {**container["Config"], "Cmd": ["sleep", "infinity"], "Labels": {}}
    docker = {"spark1": replace(made, containers={IDS["spark1"]: {**container, "Config": config}})}
    seen = live(scene({"spark1": None}, docker))
    assert (seen.asleep, seen.ended, seen.absent, seen.whole) == ((0,), (), (), False)
    assert seen.side.ranks[0].flags, "those of the next start"
    assert compare(beside(live(scene()).side, seen), seen.side) == (), "what is not known is no difference"
    bare = {**container, "Config": {**config, "Env": []}, "HostConfig": {}, "Mounts": []}
    foreign = live(scene({"spark1": None}, {"spark1": replace(made, containers={IDS["spark1"]: bare})}))
    assert foreign.asleep == (0,)
    assert compare(beside(live(scene()).side, foreign), foreign.side) == (), "it is not what will be started"
    stopped = {**container, "Config": config, "State": {"Status": "exited"}}
    gone = {"spark1": replace(made, containers={IDS["spark1"]: stopped})}
    assert live(scene({"spark1": None}, gone)).ended == (0,)


def test_an_engine_of_somebody_else_is_not_taken_for_this_one() -> None:
    assert live(scene({"spark1": program("spark1", SPARKD_OWNER="them")})).ended == (0,)
    other = program("spark1", SPARKD_DEPLOYMENT="other")
    docker = {"spark1": replace(inspected("spark1"), containers={})}
    seen = live(scene({"spark1": other}, docker))
    assert (seen.absent, seen.side.ranks[0].flags and seen.side.ranks[0].flags["max-num-seqs"]) == ((0,), 4)


def test_two_ranks_on_one_machine_are_told_apart_by_their_marks() -> None:
    """The demo's nodes are one machine: each sees the processes of both."""
    both = scene()
    found = (program("spark1"), program("spark2", add=("--seed", "3")))
    both = replace(both, facts={**both.facts, **{(node, PROGRAMS.name): found for node in NODES}})
    assert [(form.flags or {}).get("seed") for form in live(both).side.ranks] == [None, 3]


def test_a_rank_that_has_ended_is_read_from_docker() -> None:
    seen = live(scene(dict.fromkeys(NODES)))
    assert (seen.absent, seen.ended) == ((), (0, 1))
    changed = inspected("spark2")
    container = changed.containers[IDS["spark2"]]
    config = {**container["Config"], "Cmd": [*container["Config"]["Cmd"], "--max-num-seqs", "9"]}
    docker = {"spark2": replace(changed, containers={IDS["spark2"]: {**container, "Config": config}})}
    (found,) = differences(scene(), scene(dict.fromkeys(NODES), docker))
    assert (found.name, found.rank, found.known, found.live, str(found.severity)) == (
        "--max-num-seqs",
        1,
        4,
        9,
        "breaks",
    )


def test_a_container_that_sparkd_only_looks_into_is_no_rank() -> None:
    looked = {}
    for node in NODES:
        made = inspected(node)
        container = made.containers[IDS[node]]
        config = {**container["Config"], "Cmd": ["-"], "Labels": {"io.sparkd.look": "us"}}
        looked[node] = replace(made, containers={IDS[node]: {**container, "Config": config}})
    assert live(scene(dict.fromkeys(NODES), looked)).absent == (0, 1)


def test_where_nothing_runs_it_is_what_the_next_start_makes() -> None:
    nothing = {node: replace(inspected(node), containers={}) for node in NODES}
    seen = live(scene(dict.fromkeys(NODES), nothing, args={**DEPLOYMENT.args, "max-num-seqs": 2}))
    assert (seen.side.label, seen.absent) == ("the next start", (0, 1))
    assert said(list(compare(live(scene()).side, seen.side))) >= {("--max-num-seqs", None, "slows")}


def test_a_node_that_cannot_be_read_is_said_and_the_other_compared() -> None:
    mute = {"spark2": Unknown("docker is mute", 0.0)}
    seen = live(scene({"spark2": None}, mute))
    assert (seen.unread, [form.rank for form in seen.side.ranks]) == ({"spark2": "docker is mute"}, [0])
    running = live(scene(docker=mute))
    assert (running.unread, running.side.ranks[1].container) == ({}, None), "a process tells of itself"
    found = compare(beside(live(scene()).side, running), running.side)
    assert {one.name for one in found} == {"NCCL_VERSION", "CUDA_VERSION"}, "of its image, which nobody could ask"


def test_an_engine_tells_of_itself_where_nobody_can_look_at_its_process() -> None:
    """The node service is stuck; Docker, which has the start-up log, is not."""
    seen_before = live(scene())
    rank = Container("c" * 64, "sparkd-demo-0", "demo", 0, 7, "us", "", "running")
    stuck = scene()
    stuck = replace(
        stuck,
        facts={**stuck.facts, ("spark1", PROGRAMS.name): Unknown("it is stuck", 0.0)},
        nodes={**stuck.nodes, "spark1": replace(view("spark1"), containers=(rank,))},
    )
    (first, second) = processes(stuck)
    assert (first.owner, first.container, second.owner) == (rank.id, rank.id, IDS["spark2"])
    given: dict[str, Any] = {
        "max-num-seqs": 8,
        "max-model-len": 1024,
        "tensor-parallel-size": 2,
        "enforce-eager": True,
        "nnodes": 2,
    }
    given |= {"served-model-name": ["m"], "host": "0.0.0.0", "master-addr": "10.0.0.1"}
    seen = live(replace(stuck, says={("spark1", rank.id): {"given": given}}))
    found = with_known(seen_before.side, seen, 0.0, 0.0)
    assert found.unread == {"spark1": "it is stuck"}
    assert said(list(found.serious)) == {("--max-num-seqs", 0, "slows")}


def test_json_whose_quotes_were_eaten_is_named_as_that() -> None:
    """`ssh … docker exec … bash -c` took them; older engines ran on without a word (first field report)."""
    eaten = {node: program(node, add=("--compilation-config", "{cudagraph_mode:FULL_AND_PIECEWISE}")) for node in NODES}
    (found,) = differences(scene(), scene(eaten))
    assert (found.name, str(found.severity), found.rank) == ("--compilation-config", "breaks", None)
    assert "quotes of its JSON were eaten" in str(found.why)


def test_ranks_without_containers_are_read_by_their_units() -> None:
    """A transient unit of sparkd, and beside it what systemd gives every process."""
    alone: dict[str, Any] = {"runtime": "process", "image": None, "user": "ranks"}
    given = {"INVOCATION_ID": "1", "JOURNAL_STREAM": "8:1", "LANG": "C.UTF-8", "USER": "ranks", "SYSTEMD_EXEC_PID": "4"}
    programs = {}
    for node in NODES:
        spec = rank_specs(replace(DEPLOYMENT, **alone), CLUSTER.nodes, "us", 7)[NODES.index(node)]
        env = {**spec.env, **given}
        programs[node] = replace(program(node), owner=f"sparkd-demo-{spec.rank}.service", env=env)
    at = scene(programs, {node: Unknown("there is no Docker here", 0.0) for node in NODES}, **alone)
    at = replace(at, nodes={node: replace(view(node), units=()) for node in NODES})
    seen = live(at)
    assert (seen.unread, seen.absent, seen.side.ranks[0].container) == ({}, (), None)
    assert compare(beside(seen.side, wanted(at)), wanted(at).side) == ()


def test_what_could_not_be_read_is_no_difference() -> None:
    unread = {fact: {"spark2": Unknown("too late", 0.0)} for fact in (VERSIONS, LINKS, MODEL, CACHES)}
    assert differences(scene(), scene(around=unread)) == []
    assert live(scene(around=unread)).unread_parts[1]["model "] == "too late"


@pytest.mark.parametrize(
    ("fact", "value", "name", "severity"),
    [
        (VERSIONS, {"kernel": "6.17", "architecture": "aarch64", "driver": "580.95"}, "kernel", "unknown"),
        (MODEL, Model("dir", True, True, "", (Shard("model-1.safetensors", 99, 100),)), "model model-1.safetensors", "breaks"),
        (MODEL, Model("dir", True, True, "", (Shard("model-1.safetensors", None, None),)), "model model-1.safetensors", "breaks"),
        (PRESSURE, Pressure(None, None, (Swap("/swap.img", "file", 1 << 34, 0),)), "swap devices", "slows"),
        (MODEL, replace(AROUND[MODEL], hashes={"config.json": "ab" * 32}), "model config.json", "unknown"),
        (CACHES, (Cache("/home/x/.cache/vllm", 0, 0),), "cache /home/x/.cache/vllm", "slows"),
    ],
)  # fmt: skip
def test_what_lies_around_one_rank(fact: Fact[Any], value: object, name: str, severity: str) -> None:
    found = differences(scene(), scene(around={fact: {"spark2": value}}))
    assert said(found) == {(name, 1, severity)}
    assert found[0].fix


def test_weights_of_the_same_size_with_other_bytes() -> None:
    def hashed(*shas: str | None) -> Scene:
        shards = (Shard("model-1.safetensors", 100, 100),)
        hashes = [{} if sha is None else {"model-1.safetensors": sha * 32} for sha in shas]
        return scene(
            around={
                MODEL: {
                    node: Model("dir", True, True, "", shards, one) for node, one in zip(NODES, hashes, strict=True)
                }
            }
        )

    before, same, other = hashed(None, None), hashed("ab", "ab"), hashed("ab", "cd")
    assert differences(before, same) == [], "nobody knows what the bytes were"
    assert said(differences(before, other)) == {("hash model-1.safetensors", 1, "breaks")}, "but that ranks differ"
    assert said(differences(same, other)) == {("hash model-1.safetensors", 1, "breaks")}
    assert differences(same, before) == []


def test_flags_are_read_by_the_engine_in_a_mount_where_it_has_been_asked() -> None:
    words = {node: program(node, add=("--fork-flag", "7k")) for node in NODES}
    asked = scene(words)
    assert live(asked).flags_by == "sparkd's table of vllm 0.32.0"
    assert (
        live(replace(asked, unasked="nobody has asked it")).flags_by
        == "sparkd's table of vllm 0.32.0: nobody has asked it"
    )
    own = replace(shipped("vllm"), version="0.40", own=True)
    fork = {"fork-flag": Flag(name="fork-flag", kind="size")}
    own = replace(own, flags={**own.flags, **fork}, spellings={**own.spellings, "--fork-flag": "fork-flag"})
    asked = replace(asked, engine_id="a-mount-of-this-test", parser=own, tables=Tables({"a-mount-of-this-test": own}))
    seen = live(asked)
    assert seen.flags_by == "the image's own vllm 0.40"
    assert [(form.engine_id, (form.flags or {})["fork-flag"]) for form in seen.side.ranks] == [
        ("a-mount-of-this-test", 7000)
    ] * 2
    assert wanted(asked).side.ranks[0].engine_id == "a-mount-of-this-test"


def test_swap_that_sparkd_turns_off_before_a_start_is_off_for_it() -> None:
    swap = Pressure(None, None, (Swap("/swap.img", "file", 1 << 34, 0),))
    on = scene(around={PRESSURE: dict.fromkeys(NODES, swap)})
    off = replace(on, cluster=replace(CLUSTER, cleanup=Cleanup(swapoff=True)))
    hosts = [wanted(one).side.ranks[0].host or {} for one in (on, off)]
    assert [host["swap devices"] for host in hosts] == ["/swap.img", "off"]
    running = live(off).side.ranks[0].host or {}
    assert running["swap devices"] == "/swap.img", "somebody has turned it on since"


def test_another_build_of_a_library_of_the_same_name() -> None:
    other = replace(program("spark2"), libraries={"/usr/lib/libnccl.so.2": "cd" * 32})
    found = differences(scene(), scene({"spark2": other}))
    assert said(found) == {("library libnccl.so.2", 1, "unknown")}
    assert (found[0].known, found[0].live) == ("ab" * 6, "cd" * 6)


def test_what_differs_between_the_ranks_from_the_start_is_no_news() -> None:
    apart = scene(around={VERSIONS: {"spark2": {"kernel": "6.17", "architecture": "aarch64", "driver": "580.95"}}})
    assert differences(apart, apart) == []


def test_a_mod_applied_twice_is_found_by_its_marker() -> None:
    markers = ({"path": "/opt/mxfp4.py", "pattern": "empty_cache", "count": 2},)

    def with_lines(lines: int) -> Scene:
        answers: dict[Ask, Answer] = {
            Text(node, Place("image", "vllm:1"), "/opt/mxfp4.py"): "empty_cache()\n"
            * (lines if node == "spark2" else 2)
            for node in NODES
        }
        return replace(scene(markers=markers), answers=answers)

    (found,) = differences(with_lines(2), with_lines(4))
    assert (found.name, found.rank, found.live) == ("marker /opt/mxfp4.py `empty_cache`", 1, "4 lines")
    assert str(found.severity) == "breaks"


def test_a_file_changed_in_the_container_itself() -> None:
    changed = replace(scene(), answers={changed_in("spark2", IDS["spark2"]): '{"/opt/vllm/x.py": "0123456789ab"}'})
    (found,) = differences(scene(), changed)
    assert (found.name, found.rank, found.live) == ("changed /opt/vllm/x.py", 1, "0123456789ab")


def test_changes_are_asked_of_containers_that_run_a_rank() -> None:
    assert set(reading(quick=True).asks(scene())) == {changed_in(node, IDS[node]) for node in NODES}


def test_no_secret_is_in_a_side() -> None:
    secret = "s3cret-0123456789"
    leaky = program(
        "spark1", add=("--api-key", secret, "--hf-token", secret), HF_TOKEN=secret, URL=f"http://{secret}@x"
    )
    docker = inspected("spark1")
    container = docker.containers[IDS["spark1"]]
    config = {**container["Config"], "Cmd": [*container["Config"]["Cmd"], "--api-key", secret]}
    ended = replace(docker, containers={IDS["spark1"]: {**container, "Config": config}})
    assert secret not in repr(live(scene({"spark1": leaky}, {"spark1": ended})))
    assert secret not in repr(live(scene({"spark1": None}, {"spark1": ended})))
    (form, _) = live(scene({"spark1": leaky})).side.ranks
    assert (form.env["HF_TOKEN"], form.env["URL"]) == (HIDDEN, f"http://{HIDDEN}@x")


DIGITS = "9" * 5000


def with_container(node: str, **changes: Any) -> dict[str, Inspected]:
    made = inspected(node)
    container = made.containers[IDS[node]]
    config = {**container["Config"], **changes.pop("Config", {})}
    return {node: replace(made, containers={IDS[node]: {**container, "Config": config, **changes}})}


@pytest.mark.parametrize("label", [DIGITS, "²", "1_0", "nan", "\ud800"])
def test_a_label_that_is_no_rank_is_none(label: str) -> None:
    labels = {**inspected("spark2").containers[IDS["spark2"]]["Config"]["Labels"], "io.sparkd.rank": label}
    seen = live(scene(docker=with_container("spark2", Config={"Labels": labels})))
    assert (seen.whole, [form.rank for form in seen.side.ranks]) == (True, [0, 1])


def test_words_with_more_digits_than_python_prints_are_kept_as_they_are_written() -> None:
    words = ("--max-model-len", f"{'9' * 4300}K", "--seed", DIGITS, "--speculative-config", f'{{"a": {"9" * 4300}K}}')
    seen = live(scene({"spark2": program("spark2", add=words)}))
    record = as_yaml(seen.side, {})
    assert f'seed: "{DIGITS}"' in record
    found = with_known(live(scene()).side, seen, 0.0, 0.0)
    assert {one.name for one in found.findings} >= {"--max-model-len", "--seed"}
    json.dumps(found.as_json("demo", ""))


@pytest.mark.parametrize("changes", [{"HostConfig": None}, {"HostConfig": {"Ulimits": [{}]}}, {"Mounts": 5}])
def test_a_container_of_another_shape_costs_its_own_rank(changes: dict[str, Any]) -> None:
    seen = live(scene({"spark1": program("spark1", add=("--seed", "3"))}, with_container("spark2", **changes)))
    found = with_known(live(scene()).side, seen, 0.0, 0.0)
    assert [one.name for one in found.findings if one.rank == 0] == ["--seed"], "the other rank is compared"
    assert list(seen.unread) == ["spark2"]
    assert seen.unread["spark2"].startswith("unreadable rank 1: ")


def test_a_container_without_a_state_still_has_a_log() -> None:
    found = list(processes(scene(docker=with_container("spark2", State=3))))
    assert [(one.rank, one.started) for one in found] == [(0, ""), (1, "")]


SAYS: dict[str, dict[str, Any]] = {"given": {"max-num-seqs": 8, "seed": 3}, "in-use": {"max-model-len": 1024}}
ODD = Unread("a number of 5000 digits")


def test_what_an_engine_says_and_cannot_be_read_is_not_compared_and_is_told() -> None:
    owner = ("spark2", IDS["spark2"])
    known = live(replace(scene(), says={owner: SAYS})).side
    says = {"given": {"max-num-seqs": ODD, "seed": 3}, "in-use": {"max-model-len": ODD}, "rest": {"its page /x": ODD}}
    seen = live(replace(scene(), says={owner: says}))
    found = with_known(known, seen, 0.0, 0.0)
    assert found.findings == (), "neither a difference nor silence"
    assert [one for one in found.not_compared if ODD.why in one] == [
        f"--max-num-seqs by its log of rank 1: {ODD.why}",
        f"max-model-len in use of rank 1: {ODD.why}",
        f"its page /x of rank 1: {ODD.why}",
    ]
    assert seen.whole, "it is recorded, without these"
    assert ODD.why not in as_yaml(seen.side, {})
    again = live(replace(scene(), says={owner: {**says, "given": {"max-num-seqs": ODD, "seed": 4}}}))
    assert [one.name for one in with_known(known, again, 0.0, 0.0).findings] == ["--seed"]


def test_of_a_node_that_is_unread_too() -> None:
    view_ = view("spark2")
    ran = Container("b" * 64, "sparkd-demo-1", "demo", 1, 7, "us", "", "running", None, False)
    mute = replace(scene(), nodes={"spark1": view("spark1"), "spark2": replace(view_, containers=(ran,))})
    mute = replace(mute, facts={**mute.facts, ("spark2", PROGRAMS.name): Unknown("mute", 0.0)})
    known = live(replace(scene(), says={("spark2", IDS["spark2"]): SAYS})).side
    says = {("spark2", IDS["spark2"]): {"given": {"max-num-seqs": ODD, "seed": 4}, "in-use": {}}}
    found = with_known(known, live(replace(mute, says=says)), 0.0, 0.0)
    assert "--max-num-seqs" not in {one.name for one in found.findings}
    assert f"--max-num-seqs by its log of rank 1: {ODD.why}" in found.not_compared
