"""units and boots: what of systemd's words reaches the head, with a systemctl and a journalctl of the test's own."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from sparkd.facts import boots as boots_fact
from sparkd.facts import units as units_fact
from sparkd.node import unit_files
from sparkd.node.probes import boots, units
from sparkd.node.refusal import Refusal


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(unit_files, "LINGER", str(tmp_path / "linger"))
    monkeypatch.setattr(boots, "_BEFORE", {})
    monkeypatch.setattr(units, "_RESTARTS", {})
    monkeypatch.setattr(boots, "REQUIRED", str(tmp_path / "reboot-required"))
    monkeypatch.setattr(boots, "PERIODIC", str(tmp_path / "apt"))
    return tmp_path


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def block(name: str, command: str, **properties: str) -> str:
    said = {
        "Id": name,
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "FragmentPath": f"/etc/systemd/system/{name}",
        "NRestarts": "0",
        "ExecMainStartTimestampMonotonic": "1000000",
        "RestartUSec": "30s",
        "ExecStart": f"{{ path={command.split()[0]} ; argv[]={command} ; ignore_errors=no ; start_time=[n/a] ; status=0/0 }}",
        **properties,
    }
    return "".join(f"{key}={value}\n" for key, value in said.items())


def shown(tools: Path, *blocks: str) -> list[units_fact.Unit]:
    """What the head reads when systemctl says this."""
    (tools / "said").write_text("\n".join(blocks))
    tool(tools, "systemctl", f"cat {tools}/said")
    return list(units_fact.parse(units.probe({}, 5.0)))


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, True),
        ({"UnitFileState": "disabled", "ActiveState": "inactive"}, False),
        ({"UnitFileState": "disabled", "ActiveState": "failed"}, True),
        ({"UnitFileState": "disabled", "ActiveState": "activating"}, True),
        ({"UnitFileState": "static", "ActiveState": "inactive"}, False),
        ({"UnitFileState": "static", "ActiveState": "inactive", "TriggeredBy": "x.timer"}, True),
        ({"LoadState": "not-found"}, False),
        ({"RootDirectory": "/srv/other"}, False),
        ({"FragmentPath": "/usr/lib/systemd/system/x.service"}, False),
        ({"FragmentPath": "/usr/lib/systemd/system/x.service", "ActiveState": "failed"}, True),
        ({"FragmentPath": "/usr/lib/systemd/system/x.service", "NRestarts": "3"}, True),
        (
            {
                "FragmentPath": "/usr/lib/systemd/system/x.service",
                "DropInPaths": "/etc/systemd/system/x.service.d/a.conf",
            },
            True,
        ),
    ],
)
def test_which_units_are_told(tools: Path, properties: dict[str, str], kept: bool) -> None:
    timer = block("x.timer", "/bin/true")
    found = shown(tools, block("x.service", "/bin/true", **properties), timer)
    assert [unit.name for unit in found] == (["x.service"] if kept else [])


def test_what_a_timer_starts_is_asked_for_by_name(tools: Path) -> None:
    """A pattern leaves out what is inactive, which such a service is but for a moment a day."""
    (tools / "timers").write_text(block("nightly.timer", "/bin/true", Triggers="nightly.service"))
    timed = {"UnitFileState": "static", "ActiveState": "inactive", "TriggeredBy": "nightly.timer"}
    (tools / "services").write_text(block("nightly.service", "/bin/sh /opt/nightly.sh", **timed))
    tool(tools, "systemctl", f'case "$*" in *nightly.service) cat {tools}/services;; *) cat {tools}/timers;; esac')
    (unit,) = units_fact.parse(units.probe({}, 5.0))
    assert (unit.name, unit.triggered_by, unit.starts_itself) == ("nightly.service", ("nightly.timer",), True)


@pytest.mark.parametrize(
    ("name", "command", "kept"),
    [
        ("x.service", "/usr/bin/docker exec a b", True),
        ("x.service", "/usr/bin/gone-with-its-package", True),
        ("vllm.service", "/bin/true", True),
        ("cron.service", "/bin/true", False),
    ],
)
def test_units_of_the_distribution_that_are_told(tools: Path, name: str, command: str, kept: bool) -> None:
    found = shown(tools, block(name, command, FragmentPath=f"/lib/systemd/system/{name}"))
    assert bool(found) is kept


@pytest.mark.parametrize(
    ("command", "path"), [(f"/bin/bash -c {'x' * 9000}", "/bin/bash"), ("/opt/my dir/run --x", "/opt/my dir/run")]
)
def test_one_odd_command_hides_no_other_unit(tools: Path, command: str, path: str) -> None:
    odd = f"{{ path={path} ; argv[]={command} ; ignore_errors=no ; start_time=[n/a] ; status=0/0 }}"
    found = shown(tools, block("a.service", "/bin/true", ExecStart=odd), block("b.service", "/opt/gone"))
    assert [unit.commands[0].words[0] for unit in found] == [path, "/opt/gone"]


def test_a_command_that_nobody_could_carry_is_left_out(tools: Path) -> None:
    found = shown(tools, block("a.service", f"/bin/bash -c {'x' * units.MAX_VALUE}"), block("b.service", "/opt/gone"))
    assert [len(unit.commands) for unit in found] == [0, 1]


def test_restarts_between_two_looks_are_counted(tools: Path) -> None:
    looks = [shown(tools, block("x.service", "/bin/true", NRestarts=count))[0].rose for count in ("4", "6", "6", "0")]
    assert looks == [0, 2, 0, 0]


def test_ranks_of_ours_are_not_told(tools: Path) -> None:
    assert shown(tools, block("sparkd-ds4-flash-0.service", "/bin/true", UnitFileState="transient")) == []


def test_quotes_variables_and_scripts_come_from_the_files(tools: Path) -> None:
    script = tools / "start.sh"
    script.write_text("#!/bin/bash\nexport HF_TOKEN=hf_x\nvllm serve /models/x \\\n  --port 8000 --api-key secret\n")
    file = tools / "x.service"
    file.write_text(f'[Service]\nEnvironment=IMG=img:1 KEY=hidden\nExecStart=/bin/sh -c "exec {script} \\\n  $IMG"\n')
    environment = {"Environment": "IMG=img:1 KEY=hidden", "FragmentPath": str(file)}
    text = block("x.service", f"/bin/sh -c exec {script}    $IMG", **environment)
    (unit,) = shown(tools, text)
    assert unit.commands[0].words[:2] == ("/bin/sh", "-c")
    assert len(unit.commands[0].words) == 3
    assert unit.says == ((str(script), "vllm serve /models/x --port 8000"),)
    said = units.probe({}, 5.0)
    assert "Variable=IMG=img:1" in said
    assert not {"hidden", "secret", "hf_x"} & set(said.replace("=", " ").split())


@pytest.mark.parametrize(
    ("condition", "skipped"),
    [
        ("ConditionPathExists={gone}", True),
        ("ConditionFileIsExecutable={gone}", True),
        ("ConditionPathExists=!{there}", True),
        ("ConditionPathExists={there}", False),
        ("ConditionPathExists=!{gone}", False),
        ("ConditionPathExists=|{gone}", False),
        ("ConditionPathExists={gone}\nConditionPathExists=", False),
        ("ConditionPathExists=/opt/%i", False),
    ],
)
def test_a_unit_that_systemd_would_pass_over(tools: Path, condition: str, skipped: bool) -> None:
    """Also before it was ever started, when systemd has not looked at its conditions yet."""
    file = tools / "x.service"
    file.write_text(
        f"[Unit]\n{condition.format(gone=tools / 'gone', there=tools)}\n[Service]\nExecStart={tools}/gone\n"
    )
    never = {"ConditionResult": "no", "ConditionTimestampMonotonic": "0", "FragmentPath": str(file)}
    (unit,) = shown(tools, block("x.service", f"{tools}/gone", **never))
    assert unit.skipped is skipped


def test_a_unit_that_its_own_exec_condition_passes_over(tools: Path) -> None:
    (unit,) = shown(tools, block("x.service", "/opt/gone", Result="exec-condition", RestartUSec="1min 30.500000s"))
    assert (unit.skipped, unit.restart_s) == (True, 90.5)


def test_units_of_people_who_linger(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = next(line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines() if ":0:0:" in line)
    folder = tools / "home/.config/systemd/user"
    (folder / "default.target.wants").mkdir(parents=True)
    (folder / "vllm.service").write_text("[Service]\nExecStart=/bin/old\nExecStart=\nExecStart=%h/run.sh a\n")
    (folder / "default.target.wants/vllm.service").symlink_to(folder / "vllm.service")
    (folder / "other.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tools / "linger").mkdir()
    (tools / "linger" / user).touch()
    monkeypatch.setattr(pwd, "getpwnam", lambda name: type("P", (), {"pw_dir": str(tools / "home")}))
    (unit,) = shown(tools)
    assert (unit.name, unit.user, unit.file_state) == ("vllm.service", user, "enabled")
    assert [command.words for command in unit.commands] == [(f"{tools}/home/run.sh", "a")]


def test_no_systemctl_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="no systemctl"):
        units.probe({}, 5.0)


# --------------------------------------------------------------------------------------------------------------- boots

END = """\
1764224000.100000 spark1 vllm[9]: INFO serving
1764224001.200000 spark1 systemd[1]: Reached target reboot.target - System Reboot.
1764224001.300000 spark1 systemd-shutdown[1]: Syncing filesystems and block devices.
1764224001.400000 spark1 systemd-journald[9]: Journal stopped
1764224001.500000 spark1 kernel: last
1764224001.600000 spark1 kernel: words
"""


def test_boots(tools: Path) -> None:
    (tools / "end").write_text(END)
    kernel = "1764220000.0 spark1 kernel: Linux version 6.14.0-1 (gcc)"
    answers = f'*--grep*) echo "{kernel}";; *--boot=-1*) cat {tools}/end;;'
    tool(tools, "journalctl", f'case "$*" in {answers} esac; echo >> {tools}/calls')
    (tools / "reboot-required").touch()
    (tools / "reboot-required.pkgs").write_text("linux-image-6.14.0-2\nlinux-image-6.14.0-2\n")
    (tools / "apt").mkdir()
    automatic = 'Unattended-Upgrade::Automatic-Reboot "true";\nUnattended-Upgrade::Automatic-Reboot-Time "02:00";\n'
    (tools / "apt" / "50unattended-upgrades").write_text(
        f'//Unattended-Upgrade::Automatic-Reboot "false";\n{automatic}'
    )
    found = boots_fact.parse(boots.probe({}, 5.0))
    assert found.orderly is True
    assert found.end[0][1].startswith("systemd[1]: Reached target")
    assert len(found.end) == 5
    assert (found.kernel_before, found.kernel) == ("6.14.0-1", os.uname().release)
    assert (found.required, found.automatic) == ("linux-image-6.14.0-2", "02:00")
    calls = (tools / "calls").read_text()
    assert boots_fact.parse(boots.probe({}, 5.0)).end == found.end
    assert (tools / "calls").read_text() == calls  # the journal is read once in a boot


def test_boots_without_a_journal(monkeypatch: pytest.MonkeyPatch, tools: Path) -> None:
    monkeypatch.setenv("PATH", str(tools))
    found = boots_fact.parse(boots.probe({}, 5.0))
    assert (found.end, found.orderly, found.required, found.automatic) == ((), None, None, None)
