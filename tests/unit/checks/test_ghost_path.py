"""ghost-path: where it speaks, and where it must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_world import SPARK1, said, trouble
from unit_world import DS4, EXEC, IN_CONTAINER, IN_IMAGE, PATH, SCRIPT, UNIT, at, runs

from sparkd.checks import ghost_path
from sparkd.checks.shared.scene import HOST, Answer, Ask, Look
from sparkd.checks.shared.starters import shown
from sparkd.facts.containers import Bound
from sparkd.facts.units import Command, Unit
from sparkd.model.check import Finding
from sparkd.model.snapshot import Unknown


def known(found: list[Finding]) -> list[Finding]:
    """Without the rows for questions that this test leaves unanswered."""
    return [one for one in found if one.status != "unknown"]


def script(container: str, image: str) -> dict[Ask, Answer]:
    return {Look(SPARK1, IN_CONTAINER, SCRIPT): container, Look(SPARK1, IN_IMAGE, SCRIPT): image}


def test_the_ghost_of_the_first_report() -> None:
    (found,) = trouble(ghost_path.CHECK, at(UNIT, answers=script("missing", "missing")))
    assert (found.node, found.status) == ("spark1", "fail")
    assert found.text == (f"vllm-ds4-head.service on spark1 needs {SCRIPT} in container vllm_ds4, which is not there")
    assert found.fix.startswith("on spark1: systemctl disable --now vllm-ds4-head.service")
    assert found.evidence == (
        "/etc/systemd/system/vllm-ds4-head.service: enabled, inactive",
        f"ExecStart=/usr/bin/docker exec vllm_ds4 bash {SCRIPT}",
    )


def test_a_file_of_the_writable_layer_is_a_ghost_to_be() -> None:
    (found,) = trouble(ghost_path.CHECK, at(UNIT, answers=script("file", "missing")))
    assert found.status == "warn"
    assert "only in the writable layer of container vllm_ds4" in found.text
    assert "docker cp" in found.fix


def test_what_the_image_has_is_no_ghost() -> None:
    assert trouble(ghost_path.CHECK, at(UNIT, answers=script("file", "file"))) == []


@pytest.mark.parametrize(("source", "status"), [("missing", ["fail"]), ("file", []), ("unreadable", [])])
def test_below_a_mount_the_node_is_looked_at(source: str, status: list[str]) -> None:
    mounted = replace(DS4, mounts=(Bound("/srv/scripts", "/workspace"),))
    answers: dict[Ask, Answer] = {
        Look(SPARK1, HOST, "/srv/scripts/vllm-head-090.sh"): source,
        Look(SPARK1, HOST, "/srv/scripts"): "dir",
    }
    found = trouble(ghost_path.CHECK, at(UNIT, there=(mounted,), answers=answers))
    assert [one.status for one in found] == status
    assert all("a mount of /srv/scripts/vllm-head-090.sh" in one.text for one in found)


def test_a_volume_outlives_its_container() -> None:
    volume = replace(DS4, mounts=(Bound("", "/workspace"),))
    assert trouble(ghost_path.CHECK, at(UNIT, there=(volume,), answers=script("file", "missing"))) == []


def test_a_container_that_is_gone() -> None:
    (found,) = trouble(ghost_path.CHECK, at(UNIT, there=()))
    assert (found.status, found.text) == (
        "fail",
        "vllm-ds4-head.service on spark1 uses container vllm_ds4, which does not exist",
    )


def test_a_container_that_a_unit_makes_is_not_missed() -> None:
    make = Command("ExecStartPre", ("/usr/bin/docker", "create", "--name", "vllm_ds4", "vllm:1", "sleep", "1"))
    assert trouble(ghost_path.CHECK, at(replace(UNIT, commands=(make, EXEC)), there=())) == []


def test_a_container_is_also_known_by_its_id() -> None:
    there = (replace(DS4, id="0123456789abcdef" * 4), replace(DS4, id="f" * 64, name="other"))
    for name in (there[0].id, there[0].id[:12]):
        assert known(trouble(ghost_path.CHECK, at(runs("/usr/bin/docker", "exec", name, "vllm"), there=there))) == []
    (found,) = known(trouble(ghost_path.CHECK, at(runs("/usr/bin/docker", "exec", "abc", "vllm"), there=there)))
    assert "container abc, which does not exist" in found.text


def test_a_container_that_a_script_or_compose_may_make_is_not_missed() -> None:
    scripted = replace(runs("/usr/bin/docker", "exec", "gone", "vllm"), says=(("/opt/a.sh", "docker run --port 1"),))
    compose = Command("ExecStartPre", ("/usr/bin/docker", "compose", "up", "-d"))
    for unit in (scripted, replace(scripted, says=(), commands=(compose, *scripted.commands))):
        assert trouble(ghost_path.CHECK, at(unit)) == []


def test_what_an_earlier_line_may_have_made_is_no_ghost() -> None:
    made = Command("ExecStartPre", ("/usr/bin/install", "-m", "755", "/opt/src", "/run/vllm"))
    guard = Command("ExecStartPre", ("/usr/bin/test", "-x", "/run/vllm"))
    start = Command("ExecStart", ("/run/vllm", "serve"))
    there = {"/run/vllm": "missing", "/usr/bin/install": "file", "/usr/bin/test": "file"}
    answers: dict[Ask, Answer] = {Look(SPARK1, HOST, path): what for path, what in there.items()}
    assert trouble(ghost_path.CHECK, at(replace(UNIT, commands=(made, start)), answers=answers)) == []
    (found,) = trouble(ghost_path.CHECK, at(replace(UNIT, commands=(guard, start)), answers=answers))
    assert "needs /run/vllm, which is not there" in found.text


def test_what_systemd_itself_needs_and_a_script_without_its_interpreter() -> None:
    unit = runs("/opt/vllm.sh", files=(("/opt/gone", "WorkingDirectory"), ("/etc/vllm.env", "EnvironmentFile")))
    answers: dict[Ask, Answer] = {
        Look(SPARK1, HOST, "/opt/gone"): "missing",
        Look(SPARK1, HOST, "/etc/vllm.env"): "file",
        Look(SPARK1, HOST, "/opt/vllm.sh"): "no-interpreter",
    }
    found = trouble(ghost_path.CHECK, at(unit, answers=answers))
    assert [(one.status, one.text.partition("needs ")[2]) for one in found] == [
        ("fail", "/opt/gone, which is not there"),
        ("fail", "/opt/vllm.sh, whose first line names a program that is not there"),
    ]
    assert "WorkingDirectory=/opt/gone" in found[0].evidence
    by_bash = runs("/bin/bash", "/opt/vllm.sh")
    assert trouble(ghost_path.CHECK, at(by_bash, answers={**answers, Look(SPARK1, HOST, "/bin/bash"): "file"})) == []


def test_without_docker_nothing_is_called_missing() -> None:
    world = at(UNIT)
    mute = replace(world, facts={**world.facts, ("spark1", "containers"): Unknown("mute", 0.0)})
    assert known(trouble(ghost_path.CHECK, mute)) == []


HOST_GHOST: dict[Ask, Answer] = {Look(SPARK1, HOST, "/opt/run"): "missing"}


@pytest.mark.parametrize(
    ("unit", "status"),
    [
        (runs("/opt/run", name="vllm.service"), ["fail"]),
        (runs("/opt/run", name="backup.service"), ["warn"]),  # nothing to do with engines
        (runs("/opt/run", name="vllm.service", file_state="disabled", active="failed"), ["warn"]),  # nobody starts it
        (runs("/opt/run", name="vllm.service", file_state="static", triggered_by=("vllm.timer",)), ["fail"]),
        (runs("/opt/run", name="vllm.service", skipped=True), []),
        (replace(UNIT, name="vllm.service", commands=(Command("ExecStart", ("/opt/run",), tolerated=True),)), []),
        (replace(UNIT, name="vllm.service", commands=(Command("ExecStop", ("/opt/run",)),)), []),
        (runs("/opt/run", name="sparkd.service"), []),
    ],
)
def test_programs_of_the_node(unit: Unit, status: list[str]) -> None:
    assert [one.status for one in trouble(ghost_path.CHECK, at(unit, answers=HOST_GHOST))] == status


def test_a_program_is_looked_for_in_the_path_of_its_container() -> None:
    unit = runs("/usr/bin/docker", "exec", "vllm_ds4", "vllm", "serve", "/m")
    looks = [Look(SPARK1, IN_CONTAINER, f"{folder}/vllm") for folder in PATH]
    image = [Look(SPARK1, IN_IMAGE, f"{folder}/vllm") for folder in PATH]
    gone: dict[Ask, Answer] = dict.fromkeys([*looks, *image], "missing")
    assert [one.status for one in trouble(ghost_path.CHECK, at(unit, answers=gone))] == ["fail"]
    there: dict[Ask, Answer] = {**gone, looks[1]: "file", image[1]: "file"}
    assert trouble(ghost_path.CHECK, at(unit, answers=there)) == []


def test_an_image_that_docker_would_fetch_is_not_judged() -> None:
    unit = runs("/usr/bin/docker", "run", "other:1", "/vllm-start.sh")
    assert trouble(ghost_path.CHECK, at(unit)) == []
    ours = runs("/usr/bin/docker", "run", "vllm:1", "/vllm-start.sh")
    gone: dict[Ask, Answer] = {Look(SPARK1, IN_IMAGE, "/vllm-start.sh"): "missing"}
    assert [one.status for one in trouble(ghost_path.CHECK, at(ours, answers=gone))] == ["fail"]


@pytest.mark.parametrize(
    ("option", "asked"),
    [
        (("-v", "scripts:/workspace"), False),
        (("-v", "./scripts:/workspace"), False),
        (("-v", "/workspace"), False),
        (("--mount", "type=volume,src=scripts,dst=/workspace"), False),
        (("--tmpfs", "/workspace:size=1g"), False),
        (("--volumes-from", "other"), False),
        (("-v", "scripts:/elsewhere"), True),
    ],
)
def test_what_is_in_a_volume_is_not_looked_for_in_the_image(option: tuple[str, ...], asked: bool) -> None:
    unit = runs("/usr/bin/docker", "run", "--rm", *option, "vllm:1", "bash", SCRIPT)
    answers: dict[Ask, Answer] = {
        Look(SPARK1, IN_IMAGE, SCRIPT): "missing",
        Look(SPARK1, HOST, "/usr/bin/docker"): "file",
    }
    assert [one.status for one in trouble(ghost_path.CHECK, at(unit, answers=answers))] == (["fail"] if asked else [])


def test_mounts_of_others_whose_source_is_gone() -> None:
    other = replace(DS4, name="grafana", mounts=(Bound("/srv/grafana", "/var/lib/grafana"),))
    gone: dict[Ask, Answer] = {Look(SPARK1, HOST, "/srv/grafana"): "missing"}
    assert said(ghost_path.CHECK, at(there=(other,), answers=gone)) == [
        ("spark1", "warn", "container grafana on spark1 mounts /srv/grafana at /var/lib/grafana, and there is no /srv/grafana")
    ]  # fmt: skip
    ours = replace(other, owner="us")
    assert trouble(ghost_path.CHECK, at(there=(ours,), answers=gone)) == []


def test_sources_that_cannot_be_asked_for_hide_no_others() -> None:
    odd = replace(
        DS4, mounts=(Bound("/srv/caf\ufffd", "/a"), Bound("/srv/two\nlines", "/b"), Bound("/srv/plain", "/c"))
    )
    asked = [ask.path for ask in ghost_path.asks(at(there=(odd,))) if isinstance(ask, Look)]
    assert asked == ["/srv/plain"]


def test_a_container_that_starts_itself_on_a_missing_script() -> None:
    looping = replace(DS4, restart="on-failure", argv=("bash", SCRIPT))
    found = trouble(ghost_path.CHECK, at(there=(looping,), answers=script("missing", "missing")))
    assert [(one.status, one.fix.split(" (")[0]) for one in found] == [
        ("fail", "on spark1: docker update --restart=no vllm_ds4")
    ]


def test_a_unit_of_a_person() -> None:
    unit = runs("/opt/run", name="vllm.service", user="milo")
    (found,) = trouble(ghost_path.CHECK, at(unit, answers=HOST_GHOST))
    assert found.fix.startswith("on spark1 as milo: systemctl --user disable --now vllm.service")


def test_evidence_holds_no_secret() -> None:
    words = ("docker", "run", "-e", "HF_TOKEN=hf_abc", "--api-key", "sk-1", "more", "words")
    assert shown(words) == "docker run -e HF_TOKEN=<redacted> --api-key <redacted>"
