"""`sparkd check` on a head where no daemon has run yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from sparkd.cli import standalone
from sparkd.cli.main import cli
from sparkd.journal.owner import owner_id

CLUSTER = "cluster: first\nnodes: {box: {address: local}}\npaths: {state: %s}\n"
DEPLOYMENT = """\
name: tiny
engine: vllm
runtime: process
hardware: cpu
nodes: [box]
user: nobody
command: [/bin/true, serve]
model: /m
"""


@pytest.fixture(autouse=True)
def other_tests_keep_their_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_it_needs_no_daemon_that_ran_before_and_the_daemon_keeps_its_id(tmp_path: Path) -> None:
    state = tmp_path / "lib" / "sparkd"
    (tmp_path / "deployments").mkdir()
    (tmp_path / "sparkd.yaml").write_text(CLUSTER % state)
    (tmp_path / "deployments" / "tiny.yaml").write_text(DEPLOYMENT)
    done = CliRunner().invoke(cli, ["check", "--config", str(tmp_path), "--json"])
    answer = json.loads(done.stdout)
    assert "error" not in answer
    kept = (state / "owner").read_text().strip()
    assert owner_id(state / "owner", None) == kept
    assert state.stat().st_mode & 0o777 == 0o700


def test_a_node_that_cannot_be_reached_is_in_the_report_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "CONNECT_S", 0.5)
    (tmp_path / "deployments").mkdir()
    nodes = (
        "{box: {address: local, data_address: 10.0.0.1}, far: {address: 192.0.2.1, key: %s, data_address: 10.0.0.2}}"
    )
    cluster = (CLUSTER % (tmp_path / "state")).replace("{box: {address: local}}", nodes % (tmp_path / "no-key"))
    (tmp_path / "sparkd.yaml").write_text(cluster)
    (tmp_path / "deployments" / "tiny.yaml").write_text(
        DEPLOYMENT.replace("[box]", "[box, far]") + "args: {tensor-parallel-size: 2}\n"
    )
    done = CliRunner().invoke(cli, ["check", "--config", str(tmp_path)], env={"COLUMNS": "400"})
    assert (done.exit_code, done.stderr) == (4, "")
    troubles = [line for line in done.stdout.splitlines() if line.startswith("unknown ") and line.endswith(" on far")]
    assert len(troubles) == 1, "one trouble with one reason, whatever could not be read there"
    assert f"cannot be checked: key {tmp_path / 'no-key'} cannot be read: No such file or directory" in done.stdout
