"""`sparkd check` on a head where no daemon has run yet."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from sparkd.cli import cli
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
