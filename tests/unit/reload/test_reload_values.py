"""What a reload means, as values: differences, what cannot change while sparkd or a group runs, deployment by deployment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.daemon.reload import entries, refusals
from sparkd.fleet.roster import may_run, roster
from sparkd.model.config import (
    BrokenDeployment,
    Cluster,
    Config,
    ContainerSpec,
    Deployment,
    Health,
    Http,
    Mount,
    Node,
    Notify,
    Paths,
    Policy,
    Webhook,
)
from sparkd.model.decision import Phase, State
from sparkd.model.view import Change, Pending
from sparkd.reporting import config_changes

NODES = {
    "spark1": Node(name="spark1", address="local", data_address="10.0.0.1"),
    "spark2": Node(name="spark2", address="10.9.0.2", data_address="10.0.0.2"),
}
CLUSTER = Cluster(cluster="desk", nodes=NODES)
DS4 = Deployment(
    name="ds4",
    engine="vllm",
    nodes=("spark1", "spark2"),
    image="vllm:1",
    args={"max-model-len": 8192, "dtype": "auto"},
    env={"OMP_NUM_THREADS": "8", "MY_API_KEY": "abcdef"},
    secrets={"HF_TOKEN": "/etc/sparkd/hf"},
    file="/etc/sparkd/deployments/ds4.yaml",
    digest="d1",
)
BROKEN = BrokenDeployment(name="ds4", file=DS4.file, problems=("ds4.yaml:3: prot: unknown key", "ds4.yaml:4: x"))


def test_every_changed_key_with_both_values() -> None:
    after = replace(
        DS4,
        image="vllm:2",
        args={"max-model-len": 4096, "kv-cache-dtype": "fp8"},
        container=ContainerSpec(mounts=(Mount(source="/m", target="/m"),)),
        policy=Policy(period=9.0),
    )
    assert config_changes.of_deployments(DS4, after) == (
        Change("args.dtype", "auto", None),
        Change("args.kv-cache-dtype", None, "fp8"),
        Change("args.max-model-len", "8192", "4096"),
        Change("container.mounts", None, '[{"source": "/m", "target": "/m", "read_only": false}]'),
        Change("image", "vllm:1", "vllm:2"),
    )


def test_secrets_are_shown_as_references_and_never_as_values() -> None:
    after = replace(
        DS4,
        env={**DS4.env, "MY_API_KEY": "ghijkl"},
        secrets={"HF_TOKEN": "/etc/sparkd/hf2"},
        args={**DS4.args, "api-key": "mnopqr", "max-num-batched-tokens": 2048},
    )
    shown = {one.key: (one.before, one.after) for one in config_changes.of_deployments(DS4, after)}
    assert shown == {
        "args.api-key": (None, "<redacted>"),
        "args.max-num-batched-tokens": (None, "2048"),
        "env.MY_API_KEY": ("<redacted>", "<redacted>"),
        "secrets.HF_TOKEN": ("<from /etc/sparkd/hf>", "<from /etc/sparkd/hf2>"),
    }


def test_the_address_of_a_hook_is_one_too() -> None:
    hooked = replace(CLUSTER, notify=Notify(webhook=Webhook(url="https://hooks.example/T0/B0/secret")))
    assert config_changes.of_clusters(CLUSTER, hooked) == (Change("notify.webhook.url", None, "<redacted>"),)


def test_changes_in_words() -> None:
    changes = [Change("a", "1", "2"), Change("b", None, "x"), Change("c", "y", None), Change("d", "0", "9")]
    assert config_changes.said(changes[:2]) == "a 1 -> 2, b (none) -> x"
    assert config_changes.said(changes) == "a 1 -> 2, b (none) -> x, c y -> (none) and 1 more"


# ---------------------------------------------------------------------------------------------------------- refusals


def test_most_of_sparkd_yaml_counts_at_once() -> None:
    after = replace(
        CLUSTER,
        cluster="lab",
        policy=Policy(period=9.0),
        checks={"swap": "off"},
        notify=Notify(exec=("/bin/true",)),
        nodes={**NODES, "spark2": replace(NODES["spark2"], address="10.9.0.3"), "spark3": NODES["spark2"]},
    )
    assert list(refusals(CLUSTER, after, "sparkd.yaml", {"spark1": "ds4", "spark2": "ds4"})) == []


@pytest.mark.parametrize(
    ("after", "path", "fix"),
    [
        (replace(CLUSTER, paths=Paths(state="/elsewhere")), "paths.state", "engines go on"),
        (replace(CLUSTER, http=Http(listen="0.0.0.0:9477")), "http.listen", "engines go on"),
        (replace(CLUSTER, nodes={"spark1": NODES["spark1"]}), "nodes.spark2", "sparkd ctl stop ds4"),
        (
            replace(CLUSTER, nodes={**NODES, "spark2": replace(NODES["spark2"], data_address="10.0.0.9")}),
            "nodes.spark2.data_address",
            "sparkd ctl stop ds4",
        ),
    ],
)
def test_what_cannot_change_is_said_with_its_fix(after: Cluster, path: str, fix: str) -> None:
    (problem,) = refusals(CLUSTER, after, "/etc/sparkd/sparkd.yaml", {"spark1": "ds4", "spark2": "ds4"})
    assert (problem.file, problem.path) == ("/etc/sparkd/sparkd.yaml", path)
    assert fix in problem.fix


def test_a_node_where_nothing_runs_may_go() -> None:
    assert list(refusals(CLUSTER, replace(CLUSTER, nodes={"spark1": NODES["spark1"]}), "f", {"spark1": "ds4"})) == []


# ------------------------------------------------------------------------------------------------------------- roster


def config(*deployments: Deployment, broken: tuple[BrokenDeployment, ...] = ()) -> Config:
    return Config(cluster=CLUSTER, deployments=deployments, broken=broken)


def test_what_may_run_goes_on_without_its_file() -> None:
    gone = roster(config(), {"ds4": DS4})
    assert (gone.wanted, gone.fileless, gone.broken) == ({"ds4": DS4}, {"ds4": None}, ())
    assert gone.pending("ds4", State(started=DS4)) == Pending(removed=True)
    assert gone.without("ds4").wanted == {}


def test_a_broken_file_is_known_by_its_path_where_no_name_can_be_read() -> None:
    nameless = replace(BROKEN, name="ds4.yaml")
    found = roster(config(broken=(nameless,)), {"ds4": DS4})
    assert (found.broken, found.fileless) == ((), {"ds4": nameless})
    assert found.pending("ds4", State(started=DS4)) == Pending(problems=BROKEN.problems)
    assert found.without("ds4").broken == (nameless,)


def test_a_usable_file_counts_for_the_next_start() -> None:
    edited = replace(DS4, image="vllm:2", digest="d2")
    found = roster(config(edited), {"ds4": DS4})
    assert (found.wanted, found.fileless) == ({"ds4": edited}, {})
    assert found.pending("ds4", State(started=DS4)).changes == (Change("image", "vllm:1", "vllm:2"),)
    assert found.pending("ds4", State()) == Pending(), "nothing runs: nothing is pending"


@pytest.mark.parametrize(
    ("state", "may"),
    [(State(phase=Phase.STOPPED), False), (State(), True), (State(phase=Phase.STOPPED, started=DS4), True)],
)
def test_until_it_is_seen_to_be_gone_it_may_run(state: State, may: bool) -> None:
    assert may_run(state) is may


# ------------------------------------------------------------------------------------------------------------ entries


def said(before: Config, after: Config, runs: Deployment | None = None) -> list[tuple[str, str]]:
    state = State(phase=Phase.SERVE if runs else Phase.STOPPED, started=runs)
    was, now = roster(before, {}), roster(after, {"ds4": runs} if runs else {})
    return [
        (one.what, one.sentence) for one in entries(was, now, {name: now.pending(name, state) for name in now.wanted})
    ]


EDITED = replace(DS4, image="vllm:2", digest="d2")
GOES_ON = "it goes on as it was started, until `sparkd ctl stop ds4`"


@pytest.mark.parametrize(
    ("before", "after", "runs", "expected"),
    [
        (config(DS4), config(DS4), DS4, []),
        (config(), config(DS4), None, [("added", "is new and is stopped until `sparkd ctl start ds4`")]),
        (config(), config(replace(DS4, autostart=True)), None, [("added", "is new and starts by itself")]),
        (config(DS4), config(), None, [("removed", "is removed")]),
        (config(DS4), config(), DS4, [("kept", f"is not removed while it runs: {GOES_ON}")]),
        (config(DS4), config(broken=(BROKEN,)), None, [("broken", f"cannot be used: {BROKEN.problems[0]}")]),
        (config(DS4), config(broken=(BROKEN,)), DS4, [("broken", f"cannot be used: {BROKEN.problems[0]}; {GOES_ON}")]),
        (
            config(broken=(BROKEN,)),
            config(DS4),
            None,
            [("added", "is new and is stopped until `sparkd ctl start ds4`")],
        ),
        (config(broken=(BROKEN,)), config(), None, [("removed", "is removed")]),
        (config(DS4), config(EDITED), DS4, [("pending", "restart pending: image vllm:1 -> vllm:2")]),
        (config(EDITED), config(EDITED), DS4, [("pending", "restart pending: image vllm:1 -> vllm:2")]),
        (config(DS4), config(EDITED), None, [("changed", "is changed and starts by its new file")]),
        (
            config(DS4),
            config(replace(DS4, health=Health(canary_after=5.0))),
            DS4,
            [("changed", "is changed: how it is watched counts at once")],
        ),
    ],
)
def test_what_a_reload_means_for_a_deployment(
    before: Config, after: Config, runs: Deployment | None, expected: list[tuple[str, str]]
) -> None:
    assert said(before, after, runs) == expected
