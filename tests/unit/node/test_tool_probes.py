"""gpu, links, versions, disks: probes that ask tools and /sys, with tools of the test's own where there is no hardware."""

from __future__ import annotations

import getpass
import os
import shutil
from pathlib import Path

import pytest

from sparkd.facts import disks as disks_fact
from sparkd.facts import environment as environment_fact
from sparkd.facts import gpu as gpu_fact
from sparkd.facts import links as links_fact
from sparkd.facts import versions as versions_fact
from sparkd.facts.environment import Setting
from sparkd.node.probes import disks, environment, gpu, links, versions
from sparkd.node.refusal import Refusal


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH beside /usr/bin."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_gpu_of_a_working_tool(tools: Path) -> None:
    tool(tools, "nvidia-smi", "echo '0, NVIDIA GB10, 580.95.05, P0, [N/A], 2411 MHz, 96 %, 61'")
    xid = "1764224000.123456 spark1 kernel: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus."
    tool(tools, "journalctl", f"echo '{xid}'")
    found = gpu_fact.parse(gpu.probe({}, 5.0))
    assert [(one.name, one.power_w, one.sm_mhz) for one in found.gpus] == [("NVIDIA GB10", None, 2411.0)]
    assert [(one.at, one.number) for one in found.xids] == [(1764224000.123456, 79)]


def test_gpu_is_asked_for_the_reasons_of_its_clock_and_an_older_tool_without_them(tools: Path) -> None:
    row = "0, NVIDIA H200, 580.159.04, P0, 692.35 W, 1440 MHz, 99 %, 58"
    tool(tools, "nvidia-smi", f"case $1 in *clocks_event*) echo '{row}, 0x0000000000000004, 1980 MHz';; esac")
    (found,) = gpu_fact.parse(gpu.probe({}, 5.0)).gpus
    assert (found.reasons, found.max_sm_mhz) == (4, 1980.0)
    refusal = """echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2"""
    tool(tools, "nvidia-smi", f"case $1 in *clocks_event*) {refusal};; esac; echo '{row}'")
    (older,) = gpu_fact.parse(gpu.probe({}, 5.0)).gpus
    assert (older.sm_mhz, older.reasons, older.max_sm_mhz) == (1440.0, None, None)


def test_gpu_of_a_tool_that_finds_none(tools: Path) -> None:
    tool(tools, "nvidia-smi", "echo 'No devices were found'; exit 6")
    found = gpu_fact.parse(gpu.probe({}, 5.0))
    assert (found.smi, found.said, found.gpus) == ("failed", "No devices were found", ())


def test_a_mute_tool_costs_the_probe_its_deadline_and_is_killed(tools: Path) -> None:
    tool(tools, "nvidia-smi", f"echo $$ > {tools}/pid; exec sleep 600")
    with pytest.raises(Refusal) as refused:
        gpu.probe({}, 1.0)
    assert refused.value.code == "timeout"
    pid = (tools / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


def test_no_tool_and_no_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_fact.parse(gpu.probe({}, 5.0)).smi == "missing"


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no ip here (Debian: iproute2)")
def test_links_of_this_machine() -> None:
    found = links_fact.parse(links.probe({}, 5.0))
    assert all(one.mtu > 0 for one in found.interfaces)


def test_links_without_the_tool_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="iproute2"):
        links.probe({}, 5.0)


def test_versions_of_this_machine() -> None:
    assert versions_fact.parse(versions.probe({}, 1.0))["kernel"] == os.uname().release


METHOD = "VLLM_WORKER_MULTIPROC_METHOD"


def test_where_a_node_sets_a_variable(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tools, "systemctl", f"echo PATH=/bin; echo TOKEN=secret; echo {METHOD}=fork")
    (tools / "environment").write_text(f'# for logins\n{METHOD}="spawn"\nTOKEN=secret\n')
    monkeypatch.setattr(environment, "FILE", str(tools / "environment"))
    text = environment.probe({"names": [METHOD]}, 5.0)
    assert environment_fact.parse(text) == (
        Setting("systemd", METHOD, "fork"),
        Setting(f"{tools}/environment", METHOD, "spawn"),
    )
    assert "secret" not in text
    monkeypatch.setenv("PATH", str(tools / "none"))
    (found,) = environment_fact.parse(environment.probe({"names": ["TOKEN", "OTHER"]}, 5.0))
    assert (found.source, found.name) == (f"{tools}/environment", "TOKEN")


def test_disks(tmp_path: Path) -> None:
    there, not_there = str(tmp_path), str(tmp_path / "not" / "made yet")
    found = disks_fact.parse(disks.probe({"paths": [there, not_there]}, 1.0))
    whole = os.statvfs(tmp_path)
    assert found[there].total == whole.f_blocks * whole.f_frsize
    assert found[not_there].total == found[there].total
    assert not found[there].read_only


def test_the_home_of_a_user_is_looked_up_on_its_node() -> None:
    home = f"~{getpass.getuser()}/"
    found = disks_fact.parse(disks.probe({"paths": [home, "~no-such-user/x"]}, 1.0))
    whole, root = os.statvfs(os.path.expanduser(home)), os.statvfs("/")
    assert found[home].total == whole.f_blocks * whole.f_frsize
    assert found["~no-such-user/x"].total == root.f_blocks * root.f_frsize
