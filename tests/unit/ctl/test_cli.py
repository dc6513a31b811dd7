"""The `sparkd` command around ctl: run, config check, render, version, help and completion."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click import Group
from click.testing import CliRunner, Result
from ctl_daemon import daemon
from ctl_scenes import serving

from sparkd.base.errors import ConfigError, Problem
from sparkd.cli.main import cli
from sparkd.ctl.groups import commands

CLUSTER = """\
cluster: desk
nodes:
  spark1: {address: local, data_address: 10.0.0.1}
  spark2: {address: 192.168.1.12, data_address: 10.0.0.2}
"""
DEPLOYMENT = """\
name: ds4-flash
engine: vllm
nodes: [spark1, spark2]
image: ghcr.io/example/dgx-vllm:nightly
model: /models/DeepSeek-V4-Flash
secrets: {HF_TOKEN: {file: /etc/sparkd/hf_token}}
args: {tensor-parallel-size: 2}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARKD_SOCKET", str(tmp_path / "no-daemon"))
    (tmp_path / "deployments").mkdir()
    (tmp_path / "sparkd.yaml").write_text(CLUSTER)
    (tmp_path / "deployments" / "ds4-flash.yaml").write_text(DEPLOYMENT)
    return tmp_path


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="sparkd")


def test_config_check_counts_what_is_right(config: Path) -> None:
    for words in (("config", "check", config), ("config", "check", "--config", config / "sparkd.yaml")):
        result = run(*words)
        assert result.exit_code == 0
        assert result.stdout == "ok: 2 nodes, 1 deployment\n"
    answer = json.loads(run("config", "check", "--json", config).stdout)
    assert answer == {"schema": 1, "ok": True, "nodes": 2, "deployments": 1, "problems": []}


def test_config_check_of_a_deployment_file_says_what_to_give(config: Path) -> None:
    result = run("config", "check", config / "deployments" / "ds4-flash.yaml")
    assert result.exit_code == 2
    assert f"is a deployment file; give its folder: sparkd config check {config}\n" in result.stderr


def test_config_check_of_no_deployment_says_that_nothing_would_run(config: Path) -> None:
    (config / "deployments" / "ds4-flash.yaml").unlink()
    assert run("config", "check", config).stdout == "ok: 2 nodes, 0 deployments; nothing would run\n"


def test_the_environment_names_the_configuration(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKD_CONFIG", str(config))
    assert run("config", "check").exit_code == 0


def test_config_check_prints_every_problem_of_every_file(config: Path) -> None:
    (config / "sparkd.yaml").write_text(CLUSTER + "polcy: {}\n")
    (config / "deployments" / "ds4-flash.yaml").write_text(DEPLOYMENT + "prot: 8000\nnodes: [spark1]\n")
    result = run("config", "check", config)
    assert result.exit_code == 2
    assert result.stdout == ""
    for words in ("sparkd.yaml:5", "polcy", "ds4-flash.yaml:8", "prot", "ds4-flash.yaml:9"):
        assert words in result.stderr
    answer = json.loads(run("config", "check", config, "--json").stdout)
    assert answer["ok"] is False
    assert {problem["line"] for problem in answer["problems"]} >= {5, 8, 9}


def test_no_configuration_at_all_is_2(tmp_path: Path) -> None:
    for words in (("config", "check", tmp_path / "x"), ("render", "a", "--config", tmp_path / "x")):
        result = run(*words)
        assert result.exit_code == 2
        assert "no such file" in result.stderr


def test_render_shows_every_rank_and_no_secret(config: Path) -> None:
    shown = run("render", "ds4-flash", "--config", config)
    assert shown.exit_code == 0
    assert [line for line in shown.stdout.splitlines() if line.startswith("# ")] == [
        "# rank 0 on spark1",
        "# rank 1 on spark2",
    ]
    assert "/etc/sparkd/hf_token" in shown.stdout
    assert run("render", "ds4-flash", "--rank", "1", "--format", "script", "--config", config).stdout.startswith("#!")


def test_render_as_json_takes_owner_and_generation_from_the_daemon(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity() -> tuple[str, str]:
        answer = json.loads(run("render", "ds4-flash", "--format", "json", "--rank", "1", "--config", config).stdout)
        assert [rank["rank"] for rank in answer["ranks"]] == [1]
        env = answer["ranks"][0]["env"]
        return env["SPARKD_OWNER"], env["SPARKD_GENERATION"]

    assert identity() == ("00000000-0000-0000-0000-000000000000", "1")
    answer = serving()
    answer["daemon"]["owner"] = "5a1c2c3e-0000-4000-8000-000000000001"
    with daemon(answer) as server:
        monkeypatch.setenv("SPARKD_SOCKET", server.socket_path)
        assert identity() == ("5a1c2c3e-0000-4000-8000-000000000001", "14")


def test_render_of_what_is_not_there(config: Path) -> None:
    (config / "deployments" / "broken.yaml").write_text("name: broken\n")
    for words, said in (
        (("ds4-flsh",), "did you mean ds4-flash?"),
        (("ds4-flash", "--rank", "2"), "its ranks: 0, 1"),
        (("broken",), "broken.yaml"),
    ):
        result = run("render", *words, "--config", config)
        assert result.exit_code == 2
        assert said in result.stderr


@pytest.mark.parametrize("code", [0, 7])
def test_run_hands_on_the_daemons_exit_code(code: int, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def supervise(path: Path) -> int:
        started.append(path)
        return code

    replace_daemon(monkeypatch, supervise)
    assert run("run", "--config", config).exit_code == code
    assert started == [config]


def test_run_with_a_bad_configuration_prints_every_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> int:
        raise ConfigError((Problem("a.yaml", 3, "x", "wrong", "write y"), Problem("b.yaml", 0, "", "missing")))

    replace_daemon(monkeypatch, refuse)
    result = run("run")
    assert result.exit_code == 2
    assert result.stderr == "a.yaml:3: x: wrong (write y)\nb.yaml: missing\n2 problems in the configuration\n"


def replace_daemon(monkeypatch: pytest.MonkeyPatch, function: object) -> None:
    module = ModuleType("sparkd.daemon.run")
    module.run = function  # type: ignore[attr-defined]  # stands for the real one, which supervises for ever
    monkeypatch.setitem(sys.modules, "sparkd.daemon.run", module)


def test_version() -> None:
    assert re.fullmatch(r"sparkd \d+\.\d+\.\d+\n", run("version").stdout)
    assert run("--version").stdout == run("version").stdout
    assert set(json.loads(run("version", "--json").stdout)) == {"schema", "version"}


EVERY = list(commands(cli))


@pytest.mark.parametrize("path", [path for path, _ in EVERY], ids=" ".join)
def test_help_of_every_command_fits_and_every_option_is_explained(path: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        shown = run(*path, flag)
        assert shown.exit_code == 0
        assert max(map(len, shown.stdout.splitlines())) <= 90
    command = dict(EVERY)[path]
    for option in command.params:
        assert option.param_type_name == "argument" or getattr(option, "help", None), f"{path}: {option.name}"


@pytest.mark.parametrize("path", [(), *(path for path, one in EVERY if isinstance(one, Group))], ids=" ".join)
def test_a_list_of_commands_has_whole_sentences(path: tuple[str, ...]) -> None:
    assert "..." not in run(*path, "--help").stdout.partition("\nCommands:\n")[2]


def test_what_is_needed_most_is_listed_first() -> None:
    verbs = [path[1] for path, _ in EVERY if path[0] == "ctl" and len(path) == 2]
    assert verbs[:3] == ["status", "watch", "check"]
    assert verbs.index("nodes") < verbs.index("start") < verbs.index("release")
    assert [path[0] for path, _ in EVERY if len(path) == 1][:3] == ["run", "config", "render"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("confg",), "There is no command 'confg'; did you mean `sparkd config`?"),
        (("ctl", "stauts"), "There is no command 'stauts'; did you mean `sparkd ctl status`?"),
        (("status",), "There is no command 'status'; did you mean `sparkd ctl status`?"),
        (("ctl", "rendr"), "did you mean `sparkd render`?"),
        (("ctl", "kill"), "There is no command 'kill'; there is: status, watch, "),
        (("ctl", "logs", "--folow"), "There is no option --folow; did you mean --follow?"),
        (("ctl", "logs", "--zzz"), "There is no option --zzz; there is: --follow, --tail, "),
        (("ctl", "--json", "status"), "There is no option --json; write it behind the command that it is for"),
        (("ctl", "logs", "--tail", "0"), "write a whole number from 1 to 10000, not '0'"),
        (("ctl", "logs", "--rank", "x"), "write a whole number from 0 up, not 'x'"),
        (("ctl", "stop", "--timeout", "x"), "write a number from 0 up, not 'x'"),
        (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_what_is_typed_wrong_is_answered_with_what_was_meant(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_render_needs_no_name_where_there_is_one(config: Path) -> None:
    assert run("render", "--config", config).stdout == run("render", "ds4-flash", "--config", config).stdout
    (config / "deployments" / "broken.yaml").write_text("name: broken\n")
    several = run("render", "--config", config)
    assert (several.exit_code, several.stdout) == (2, "")
    assert several.stderr == "sparkd: which deployment?\n   fix: name one of ds4-flash, broken\n"
    for file in (config / "deployments").iterdir():
        file.unlink()
    assert "no deployment is configured" in run("render", "--config", config).stderr


def test_config_schema_prints_what_is_shipped() -> None:
    shipped = Path(__file__).parents[3] / "config" / "schema"
    assert run("config", "schema").stdout == (shipped / "sparkd.json").read_text()
    assert run("config", "schema", "--deployment").stdout == (shipped / "deployment.json").read_text()
