"""Good files give what was written: spellings, profiles, policies, the environment, files beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_cases import CLUSTER, DEPLOYMENT, write

from sparkd import settings
from sparkd.base.errors import ConfigError
from sparkd.engines import ENGINES
from sparkd.model.config import Deployment, Mount, Policy, Power

SHIPPED = Path(__file__).parents[3] / "config"


def load_one(folder: Path, text: str, cluster: str = CLUSTER) -> Deployment:
    (deployment,) = settings.load(write(folder, cluster, d=text)).deployments
    return deployment


def test_the_configuration_that_ships_is_good() -> None:
    assert settings.check(SHIPPED) == ()
    config = settings.load(SHIPPED / "sparkd.yaml")
    assert [deployment.name for deployment in config.deployments] == ["devstral", "ds4-flash", "qwen-coder"]
    assert list(config.cluster.nodes) == ["spark1", "spark2"]
    assert config.cluster.nodes["spark1"].is_local
    assert [Path(file).name for file in config.files] == [
        "sparkd.yaml",
        "devstral.yaml",
        "ds4-flash.yaml",
        "qwen-coder.yaml",
    ]


def test_words_and_numbers_keep_their_spelling(tmp_path: Path) -> None:
    args = (
        "args: {tensor_parallel_size: 2, mode: on, gpu-memory-utilization: 0.90, code: 010,\n"
        "  big: 1_000, list: [0.50, 2, x], json: {rate: 0.90, deep: {n: 1e3}}, day: 2026-11-27, hex: 0x10,\n"
        "  none: null, off: false}\n"
    )
    found = load_one(tmp_path, DEPLOYMENT.replace("args: {tensor-parallel-size: 2}\n", args)).args
    assert found == {
        "tensor-parallel-size": 2,
        "mode": "on",
        "gpu-memory-utilization": "0.90",
        "code": "010",
        "big": "1_000",
        "list": ["0.50", 2, "x"],
        "json": {"rate": 0.9, "deep": {"n": 1000.0}},
        "day": "2026-11-27",
        "hex": "0x10",
        "none": None,
        "off": False,
    }


def test_an_api_may_listen_on_loopback_alone_where_sparkd_is(tmp_path: Path) -> None:
    """Behind a router; and the flag is there once."""
    text = DEPLOYMENT.replace("tensor-parallel-size: 2", "tensor-parallel-size: 2, host: 127.0.0.1")
    found = load_one(tmp_path, text)
    argv = ENGINES["vllm"].argv(found, 0, settings.load(tmp_path).cluster.nodes)
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "--host"] == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("nodes", "host", "problem"),
    [
        ("[b, a]", "127.0.0.1", "sparkd could not ask an API that listens on 127.0.0.1 of `b` alone"),
        ("[a, b]", "192.168.1.11", "`--host` is not for `args`"),
        ("[a, b]", "0.0.0.0", "`--host` is not for `args`"),
    ],
)
def test_no_other_address_is_taken(tmp_path: Path, nodes: str, host: str, problem: str) -> None:
    text = DEPLOYMENT.replace("tensor-parallel-size: 2", f"tensor-parallel-size: 2, host: {host}")
    folder = write(tmp_path, d=text.replace("[a, b]", nodes))
    assert any(problem in str(one) for one in settings.check(folder))


def test_everything_lands_in_its_field(tmp_path: Path) -> None:
    text = DEPLOYMENT + (
        "env: &e {A: '1'}\nnode_env: {a: *e}\nsecrets: {HF_TOKEN: {file: /etc/sparkd/hf}}\n"
        "container: {mounts: [{source: /m, target: /n, read_only: true}], ulimits: {memlock: -1}, gpus: null}\n"
        "checks: {swap: off}\nstop: {grace: 45}\nhardware: gpu\n"
    )
    found = load_one(tmp_path, text)
    assert (found.env, found.node_env, found.secrets) == ({"A": "1"}, {"a": {"A": "1"}}, {"HF_TOKEN": "/etc/sparkd/hf"})
    assert found.container.mounts == (Mount(source="/m", target="/n", read_only=True),)
    assert (found.container.ulimits, found.container.gpus) == ({"memlock": -1}, None)
    assert (found.checks, found.stop.grace, found.file) == ({"swap": "off"}, 45.0, str(tmp_path / "deployments/d.yaml"))


def test_the_policy_of_a_deployment_is_the_clusters_with_its_own_numbers_over_it(tmp_path: Path) -> None:
    cluster = CLUSTER + "policy: {period: 7, budget: {starts: 9}}\n"
    found = load_one(tmp_path, DEPLOYMENT + "policy: {budget: {per: 60}, stuck_after: 5}\n", cluster).policy
    assert (found.period, found.budget.starts, found.budget.per, found.stuck_after) == (7, 9, 60, 5)
    assert found.resource_retries == Policy().resource_retries


PROFILES = DEPLOYMENT.replace("size: 2}", "size: 2, max_num_seqs: 4, json: {a: 1, b: 2}}") + (
    "env: {A: '1', B: '2'}\n"
    "profiles:\n"
    "  fast: {args: {max-num-seqs: 16, json: {a: 3}, eager: true}, env: {B: '3'}, known_good: {rate: 36.5}}\n"
    "  slow: {args: {max_num_seqs: null}, start: {timeout: 5000}}\n"
    "profile: fast\n"
)


def test_a_profile_merges_keys_and_replaces_the_values_of_arguments(tmp_path: Path) -> None:
    found = load_one(tmp_path, PROFILES)
    assert found.args == {"tensor-parallel-size": 2, "max-num-seqs": 16, "json": {"a": 3}, "eager": True}
    assert (found.env, found.known_good, found.profile) == ({"A": "1", "B": "3"}, {"rate": 36.5}, "fast")
    assert list(found.profiles) == ["fast", "slow"]


def test_another_profile_can_be_chosen(tmp_path: Path) -> None:
    fast = load_one(tmp_path, PROFILES)
    (slow,) = settings.load(tmp_path, {"d": "slow"}).deployments
    assert (slow.profile, slow.args["max-num-seqs"], slow.start.timeout) == ("slow", None, 5000)
    assert slow.digest != fast.digest
    cluster = settings.load(tmp_path).cluster
    assert settings.load_deployment(Path(slow.file), cluster, "slow") == slow
    (broken,) = settings.load(tmp_path, {"d": "gone"}).broken
    assert "there is no profile `gone`" in broken.problems[0]


def test_the_digest_is_of_what_runs_and_of_nothing_else(tmp_path: Path) -> None:
    before = load_one(tmp_path, DEPLOYMENT)

    def digest(text: str) -> str:
        (tmp_path / "deployments" / "d.yaml").write_text(text)
        return settings.load(tmp_path).deployments[0].digest

    for harmless in ("autostart: true\n", "policy: {period: 9}\n", "# a comment\n", "warmup: {max_tokens: 5}\n"):
        assert digest(DEPLOYMENT + harmless) == before.digest
    for other in ("env: {A: '1'}\n", "port: 8001\n", "container: {ipc: private}\n", "served_name: x\n"):
        assert digest(DEPLOYMENT + other) != before.digest


def test_the_environment_overrides_single_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, CLUSTER + "policy: {period: 7, drift: 'off'}\n")
    monkeypatch.setenv("SPARKD_HTTP__LISTEN", "0.0.0.0:9999")
    monkeypatch.setenv("SPARKD_POLICY__PERIOD", "2.5")
    monkeypatch.setenv("SPARKD_SOCKET", "/run/other.sock")
    cluster = settings.load(tmp_path).cluster
    assert (cluster.http.listen, cluster.policy.period, cluster.policy.drift) == ("0.0.0.0:9999", 2.5, "off")


def test_a_bad_value_in_the_environment_is_named_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setenv("SPARKD_POLICY__PERIOD", "often")
    monkeypatch.setenv("SPARKD_POLICY__BUDGET__STARTS", "0")
    with pytest.raises(ConfigError) as caught:
        settings.load(tmp_path)
    assert [(problem.line, problem.path, problem.text) for problem in caught.value.problems] == [
        (0, "SPARKD_POLICY__PERIOD", 'expected a number, found the text "often"'),
        (0, "SPARKD_POLICY__BUDGET__STARTS", "0 is not more than 0"),
    ]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SPARKD_HTTP", "abc", 'SPARKD_HTTP: expected a mapping, found the text "abc"'),
        ("SPARKD_HTTP", '{"listen": ', 'SPARKD_HTTP: expected a mapping, found the text "{\\"listen\\": "'),
        ("SPARKD_HTTP", '{"listen": 5}', "SPARKD_HTTP__LISTEN: expected a text, found the number 5"),
        ("SPARKD_POLICY__BUDGET", "[]", 'SPARKD_POLICY__BUDGET: expected a mapping, found the text "[]"'),
        ("SPARKD_PATHS__RUN", "~/run", "SPARKD_PATHS__RUN: `~/run`: which node's home?"),
    ],
)
def test_whatever_the_environment_says_is_a_problem_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    (found,) = settings.check(write(tmp_path))
    assert str(found).startswith(f"{tmp_path}/sparkd.yaml: {said}")


def test_options_of_the_settings_library_are_unknown_keys(tmp_path: Path) -> None:
    (found,) = settings.check(write(tmp_path, CLUSTER + "_env_file: /etc/hostname\n"))
    assert (found.line, found.text) == (6, "unknown key `_env_file`")


# ------------------------------------------------------------------------------------------------- files beside others


def test_a_bad_file_holds_its_deployment_alone(tmp_path: Path) -> None:
    config = settings.load(
        write(tmp_path, good=DEPLOYMENT, bad=DEPLOYMENT.replace("name: d", "name: other") + "prot: 1\n")
    )
    assert [deployment.name for deployment in config.deployments] == ["d"]
    assert [broken.name for broken in config.broken] == ["other"]


def test_a_name_twice_breaks_the_later_file_under_a_name_of_its_own(tmp_path: Path) -> None:
    config = settings.load(write(tmp_path, a=DEPLOYMENT, b=DEPLOYMENT))
    assert [deployment.file for deployment in config.deployments] == [str(tmp_path / "deployments/a.yaml")]
    assert [(broken.name, broken.problems) for broken in config.broken] == [
        (
            "b",
            (
                f"{tmp_path}/deployments/b.yaml:1: name: `d` is the name of {tmp_path}/deployments/a.yaml too "
                "(give each deployment its own name)",
            ),
        )
    ]


def named(name: str, *more: str) -> str:
    return DEPLOYMENT.replace("name: d", f"name: {name}") + "".join(f"{line}\n" for line in more)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (("autostart: true",), ("autostart: true",), ["port", "master_port"]),
        (("autostart: true",), ("autostart: true", "port: 8001"), ["master_port"]),
        (("autostart: true",), ("autostart: true", "port: 29501", "master_port: 8000"), ["port", "master_port"]),
        (("autostart: true",), ("autostart: true", "port: 8001", "master_port: 29502"), []),
        (("autostart: true",), (), []),
    ],
)
def test_ports_of_deployments_that_start_by_themselves(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...], said: list[str]
) -> None:
    write(tmp_path, one=named("one", *first), two=named("two", *second))
    found = settings.check(tmp_path)
    assert {Path(problem.file).name for problem in found} <= {"two.yaml"}
    assert sorted(problem.path for problem in found) == sorted(said)


def test_deployments_that_wait_for_each_other(tmp_path: Path) -> None:
    write(tmp_path, a=named("a1", "after: [b1]"), b=named("b1", "requires: [c1]"), c=named("c1", "after: [a1]"))
    assert [problem.path for problem in settings.check(tmp_path)] == ["after[0]", "requires[0]", "after[0]"]
    write_again = named("c1")
    (tmp_path / "deployments" / "c.yaml").write_text(write_again)
    assert settings.check(tmp_path) == ()


def test_only_files_that_people_meant_are_read(tmp_path: Path) -> None:
    write(tmp_path, d=DEPLOYMENT)
    for name in (".#d.yaml", "d.yaml~", "d.yaml.bak", ".d.yaml.swp", "notes.txt"):
        (tmp_path / "deployments" / name).write_text("not: yaml: at all")
    (tmp_path / "deployments" / "e.yml").write_text(named("e"))
    assert [deployment.name for deployment in settings.load(tmp_path).deployments] == ["d", "e"]


def test_a_power_hook_lands_in_its_fields_with_files_in_place_of_secrets(tmp_path: Path) -> None:
    power = "{url: 'http://plug/', method: GET, headers: {Authorization: {file: /etc/sparkd/plug}}, timeout: 60, auto: true}"
    text = CLUSTER.replace("192.168.1.12,", f"192.168.1.12, power: {power},")
    text = text.replace("192.168.1.13}", "192.168.1.13, power: {command: [/srv/cycle, outlet 3]}}")
    write(tmp_path, text)
    nodes = settings.load(tmp_path).cluster.nodes
    headers = {"Authorization": "/etc/sparkd/plug"}
    assert nodes["a"].power is None
    assert nodes["b"].power == Power(url="http://plug/", method="GET", headers=headers, timeout=60.0, auto=True)
    assert nodes["c"].power == Power(command=("/srv/cycle", "outlet 3"))
