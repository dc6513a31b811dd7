"""Units, `docker inspect`, deployments, folders, and the way back to a deployment file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkd.commandline import inspect
from sparkd.drift import RankForm, Severity, Side, compare
from sparkd.drift.argv import read_argv
from sparkd.drift.known_good import as_yaml
from sparkd.engines.args import words
from sparkd.engines.tables import shipped
from sparkd.importers.read import NotReadable, detect, read_side
from sparkd.importers.to_deployment import to_deployment

HERE = Path(__file__).parent
REPORTS, RECORDED = HERE / "reports", HERE / "recorded"
CONFIG = HERE.parents[2] / "config"
DS4 = CONFIG / "deployments" / "ds4-flash.yaml"

CLUSTER = """\
cluster: desk
nodes:
  spark1: {address: local, data_address: 10.0.0.1}
  spark2: {address: 192.168.1.12, data_address: 10.0.0.2}
"""


def bad(known: Side, live: Side) -> set[tuple[str, str]]:
    return {(str(one.severity), one.name) for one in compare(known, live) if one.severity is not Severity.BENIGN}


# ---------------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (DS4, "deployment"),
        (REPORTS / "ds4" / "vllm-head.sh", "script"),
        (REPORTS / "devstral.sh", "script"),
        (REPORTS / "vllm-ds4-head.service", "unit"),
        (RECORDED / "inspect-hand.json", "inspect"),
    ],
)
def test_what_a_file_is_shows_in_what_it_holds(file: Path, kind: str, tmp_path: Path) -> None:
    nameless = tmp_path / "file"
    nameless.write_text(file.read_text())
    assert detect(nameless, file.read_text()) == kind


def test_a_known_good_file_is_recognised(tmp_path: Path) -> None:
    side = read_side(REPORTS / "ds4")
    (tmp_path / "good.yaml").write_text(as_yaml(side, {"generation": 3}))
    read = read_side(tmp_path / "good.yaml")
    assert (read.kind, read.ranks) == ("known-good", side.ranks)
    assert compare(read, side) == ()


def test_the_kind_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[Service]\nExecStart=vllm serve /m\n")
    assert read_side(tmp_path / "x").kind == "unit"
    with pytest.raises(NotReadable, match="starts no engine"):
        read_side(tmp_path / "x", "script")
    with pytest.raises(NotReadable, match="not what `docker inspect` prints"):
        read_side(tmp_path / "x", "inspect")


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"\xff\xfe\x00", "is no text"), (b"x" * (1 << 20) + b"x", "larger than 1 MiB"), (None, "cannot be read")],
)
def test_a_file_that_cannot_be_read_says_why(data: bytes | None, why: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "x").write_bytes(data)
    with pytest.raises(NotReadable, match=why):
        read_side(tmp_path / "x")


# ----------------------------------------------------------------------------------------------------------- the reports


def test_the_scripts_of_the_first_report_run_the_latency_profile() -> None:
    known, live = read_side(DS4), read_side(REPORTS / "ds4")
    assert bad(known, live) == {
        ("slows", "--max-model-len"),
        ("slows", "--max-num-seqs"),
        ("slows", "--enable-expert-parallel"),
        ("unknown", "mount /root/.cache/vllm"),
        ("unknown", "mount /root/.cache/flashinfer"),
        ("unknown", "mount /models"),
        ("unknown", "HF_HUB_OFFLINE"),
        ("unknown", "TRANSFORMERS_OFFLINE"),
    }


def test_its_worker_script_differs_from_its_head_script_in_nothing_that_matters() -> None:
    assert compare(read_side(REPORTS / "ds4" / "vllm-head.sh"), read_side(REPORTS / "ds4" / "vllm-worker.sh")) == ()


def test_its_unit_names_a_script_that_is_nowhere() -> None:
    with pytest.raises(NotReadable, match=r"head\.service:12: /workspace/vllm-head-090\.sh is not at hand"):
        read_side(REPORTS / "vllm-ds4-head.service")


def test_its_drop_in_names_the_script_that_is_there(tmp_path: Path) -> None:
    unit = tmp_path / "vllm-ds4-head.service"
    unit.write_text((REPORTS / unit.name).read_text())
    (tmp_path / f"{unit.name}.d").mkdir()
    (tmp_path / f"{unit.name}.d" / "override.conf").write_text(
        "[Service]\nExecStart=\nExecStart=/usr/bin/docker exec vllm_ds4 bash /workspace/vllm-head.sh\n"
    )
    (tmp_path / "vllm-head.sh").write_text((REPORTS / "ds4" / "vllm-head.sh").read_text())
    side = read_side(unit)
    assert side.gaps == ()
    assert compare(read_side(REPORTS / "ds4" / "vllm-head.sh"), side) == ()
    assert side.ranks[0].unit is not None
    assert side.ranks[0].unit["Restart"] == "on-failure"
    (tmp_path / f"{unit.name}.d" / "z.conf").write_text("[Service]\nRestart=always\n")
    (found,) = compare(side, read_side(unit))
    assert (found.kind, found.name, found.known, found.live) == ("unit", "Restart", "on-failure", "always")


def test_the_line_of_the_second_report_is_followed_through_its_variables() -> None:
    (form,) = read_side(REPORTS / "qwen-vl.sh").ranks
    assert form.env["GLOO_SOCKET_IFNAME"] == form.env["NCCL_SOCKET_IFNAME"] == "enp1s0f1np1"
    assert form.flags is not None
    assert form.flags["limit-mm-per-prompt"] == {"video": 0}
    assert form.model == "QuantTrio/Qwen3-VL-235B-A22B-Thinking-AWQ"


def test_another_engine_is_read_by_the_looks_of_its_flags() -> None:
    (form,) = read_side(REPORTS / "sglang.sh").ranks
    assert form.engine == "sglang"
    assert form.flags is not None
    assert (form.flags["mem-fraction-static"], form.flags["trust-remote-code"], form.flags["tp"]) == (0.75, True, 2)


def test_the_first_try_of_the_fourth_report_lacks_what_made_it_work() -> None:
    assert bad(read_side(REPORTS / "devstral.sh"), read_side(REPORTS / "devstral-first.sh")) == {
        ("breaks", "--enforce-eager"),
        ("slows", "--gpu-memory-utilization"),
        ("unknown", "--max-model-len"),
    }


# ---------------------------------------------------------------------------------------------------------------- units


def test_a_unit_is_read_as_systemd_reads_it(tmp_path: Path) -> None:
    (tmp_path / "x.service").write_text(
        "[Unit]\nAfter=network-online.target\n"
        "[Service]\nUser=milo\n# note\n"
        'Environment=OMP_NUM_THREADS=8 "VLLM_LOGGING_LEVEL=DEBUG"\nEnvironment=PORT=8000\n'
        "ExecStart=-/home/milo/vllm-env/bin/vllm serve /m \\\n  # between\n  --port ${PORT} \\\n  --served-model-name %i\n"
        "Restart=always\n"
    )
    side = read_side(tmp_path / "x.service")
    (form,) = side.ranks
    assert form.flags == {"port": 8000, "served-model-name": ["%i"]}
    assert form.env == {"OMP_NUM_THREADS": "8", "VLLM_LOGGING_LEVEL": "DEBUG", "PORT": "8000"}
    assert form.unit == {"User": "milo", "Restart": "always", "Unit.After": "network-online.target"}
    assert [gap.why for gap in side.gaps] == ["%i is known only to systemd, where the unit runs"]


def test_a_unit_that_creates_its_container_says_how(tmp_path: Path) -> None:
    (tmp_path / "x.service").write_text(
        "[Service]\nExecStartPre=-/usr/bin/docker rm -f e\n"
        "ExecStart=/usr/bin/docker run --rm --name e --ipc=host -e A=$A img:1 bash -c 'vllm serve /m -tp \"$N\"'\n"
    )
    side = read_side(tmp_path / "x.service")
    assert (side.ranks[0].image, side.ranks[0].container) == ("img:1", {"ipc": "host"})
    assert {gap.text for gap in side.gaps} == {"$A", "$N"}


# --------------------------------------------------------------------------------------------------- docker, recorded


def test_what_docker_shows_of_ranks_that_sparkd_created_is_what_the_file_says() -> None:
    """Recorded from Docker 26: created from the bodies that `render` makes of config/."""
    side = read_side(RECORDED / "inspect-sparkd.json")
    assert [form.rank for form in side.ranks] == [0, 1]
    assert compare(read_side(DS4), side) == ()


def test_a_container_by_hand_differs_in_what_was_done_by_hand() -> None:
    assert bad(read_side(DS4), read_side(RECORDED / "inspect-hand.json")) == {
        ("breaks", "restart"),
        ("slows", "mount /root/.cache/vllm"),
        ("slows", "mount /root/.cache/flashinfer"),
        ("unknown", "mount /models"),
    }


def test_what_the_image_brings_is_taken_off_where_the_image_is_shown_too(tmp_path: Path) -> None:
    container, image = json.loads((RECORDED / "inspect-hand.json").read_text())
    image["Config"]["Env"] = [*(image["Config"]["Env"] or ()), "VLLM_FROM_IMAGE=1"]
    container["Config"]["Env"] += ["VLLM_FROM_IMAGE=1", "VLLM_OWN=1"]
    both, alone = tmp_path / "both.json", tmp_path / "alone.json"
    both.write_text(json.dumps([container, image]))
    alone.write_text(json.dumps([container]))
    names = {file.stem: {name for _, name in bad(read_side(DS4), read_side(file))} for file in (both, alone)}
    assert "VLLM_OWN" in names["both"]
    assert "VLLM_FROM_IMAGE" not in names["both"]
    assert "VLLM_FROM_IMAGE" in names["alone"]


def test_a_container_that_only_sleeps_is_compared_as_a_container(tmp_path: Path) -> None:
    container, _ = json.loads((RECORDED / "inspect-hand.json").read_text())
    container["Config"]["Cmd"] = ["sleep", "infinity"]
    (tmp_path / "x.json").write_text(json.dumps([container]))
    side = read_side(tmp_path / "x.json")
    assert side.ranks[0].flags is None
    assert {one.kind for one in compare(read_side(DS4), side) if one.kind != "env"} == {"container"}


@pytest.mark.parametrize("odd", ['[{"Config": null, "HostConfig": {}}]', '[{"Config": {"Cmd": 3}, "HostConfig": {}}]'])
def test_json_of_another_shape_is_refused(odd: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(odd)
    with pytest.raises(NotReadable, match="not what `docker inspect` prints"):
        read_side(tmp_path / "x.json")


def test_an_entry_point_that_passes_its_words_on_is_looked_through(tmp_path: Path) -> None:
    container, _ = json.loads((RECORDED / "inspect-hand.json").read_text())
    container["Config"]["Entrypoint"] = ["/opt/nvidia/nvidia_entrypoint.sh"]
    container["Config"]["Cmd"] = ["bash", "-c", "exec vllm serve /models/X --port 9000"]
    (tmp_path / "x.json").write_text(json.dumps([container]))
    assert read_side(tmp_path / "x.json").ranks[0].flags == {"port": 9000}


# ---------------------------------------------------------------------------------------------------- deployment files


def test_a_deployment_without_its_cluster_has_unknown_addresses(tmp_path: Path) -> None:
    (tmp_path / "ds4.yaml").write_text(DS4.read_text())
    found = compare(read_side(DS4), read_side(tmp_path / "ds4.yaml"))
    assert [(one.name, str(one.severity)) for one in found] == [("--master-addr", "unknown")]
    assert "give --config" in str(found[0].why)
    assert compare(read_side(DS4), read_side(tmp_path / "ds4.yaml", config=CONFIG / "sparkd.yaml")) == ()


def test_a_secret_reference_is_compared_as_one(tmp_path: Path) -> None:
    text = DS4.read_text().replace("\nargs:", "\nsecrets: {HF_TOKEN: {file: /etc/sparkd/hf_token}}\nargs:", 1)
    (tmp_path / "ds4.yaml").write_text(text)
    with_secret = read_side(tmp_path / "ds4.yaml", config=CONFIG / "sparkd.yaml")
    assert bad(read_side(DS4), with_secret) == {("unknown", "HF_TOKEN")}


# ------------------------------------------------------------------------------------------------------ folders of files


def test_a_folder_is_one_side(tmp_path: Path) -> None:
    (tmp_path / "a-exec.sh").write_text("docker exec box bash /w/run.sh\n")
    (tmp_path / "run.sh").write_text("vllm serve /m --port 9000\n")
    (tmp_path / "z-create.sh").write_text("docker run -d --name box --ipc host img:2 sleep infinity\n")
    side = read_side(tmp_path)
    assert [(form.image, form.container, form.flags) for form in side.ranks] == [
        ("img:2", {"ipc": "host"}, {"port": 9000})
    ]
    assert side.gaps == ()


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="holds no files"):
        read_side(tmp_path)


# ------------------------------------------------------------------------------------------------------------- the way back


@pytest.mark.parametrize(
    ("source", "nodes"),
    [
        (REPORTS / "ds4", ["spark1", "spark2"]),
        (REPORTS / "devstral.sh", ["spark1"]),
        (REPORTS / "devstral-first.sh", ["spark1"]),
        (DS4, ["spark1", "spark2"]),
        (CONFIG / "deployments" / "devstral.yaml", ["spark1"]),
        (RECORDED / "inspect-sparkd.json", ["spark1", "spark2"]),
    ],
)
def test_a_file_made_of_a_script_renders_to_what_the_script_runs(
    source: Path, nodes: list[str], tmp_path: Path
) -> None:
    original = read_side(source, given={"HOME": "/home/milo"})
    (tmp_path / "sparkd.yaml").write_text(CLUSTER)
    (tmp_path / "deployments").mkdir()
    file = tmp_path / "deployments" / "made.yaml"
    file.write_text(to_deployment(original, "made", nodes).yaml)
    rendered = read_side(file)
    assert len(rendered.ranks) == len(nodes)
    assert bad(original, rendered) == bad(rendered, original) == set()


DEVSTRAL = "docker run --gpus all --network host --ipc=host vllm-node vllm serve /models/devstral-small-2-24b"


@pytest.mark.parametrize(
    "flags",
    [
        "--gpu-memory-utilization 0.7 \\\n  --trust-remote-code",
        "--gpu-memory-utilization 0.85 \\\n  --max-model-len 65536 \\\n  --trust-remote-code",
        "--gpu-memory-utilization 0.85 \\\n  --max-model-len 65536 \\\n  --enforce-eager \\\n  --trust-remote-code",
    ],
)
def test_every_line_of_the_fourth_report_is_carried_over(flags: str, tmp_path: Path) -> None:
    """It writes `docker run ...` there; what stood for the dots is in its last listing."""
    script = tmp_path / "line.sh"
    script.write_text(f"{DEVSTRAL} \\\n  {flags}\n")
    (tmp_path / "sparkd.yaml").write_text(CLUSTER)
    (tmp_path / "deployments").mkdir()
    file = tmp_path / "deployments" / "made.yaml"
    original = read_side(script)
    file.write_text(to_deployment(original, "made", ["spark1"]).yaml)
    assert bad(original, read_side(file)) == bad(read_side(file), original) == set()


def test_the_line_with_ray_keeps_its_words() -> None:
    """Its engine is another one; flags, model and environment are carried over all the same."""
    original = read_side(REPORTS / "qwen-vl.sh")
    made = to_deployment(original, "qwen-vl", ["spark1"])
    again = read_argv([made.values["model"], *words(made.values["args"])], shipped("vllm"))
    given = {"host": "0.0.0.0", "port": 8000}
    assert {**again.flags, **given} == original.ranks[0].flags
    assert made.values["env"] == dict(original.ranks[0].env)
    assert any("Ray places the ranks" in note for note in made.notes)


def test_what_cannot_be_carried_over_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text(
        "export HF_TOKEN=hf_planted_secret\n"
        "docker run --restart always --pid host --security-opt a=b img:1 vllm serve /m --api-key sk-planted \\\n"
        "  --served-model-name a b --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 -cc {mode:3} --seed $S \\\n"
        "  --allowed-origins '[\"*\"]' --middleware a.b\n"
    )
    made = to_deployment(read_side(tmp_path / "x.sh"), "x")
    assert made.values["nodes"] == ["node1", "node2"]
    assert made.values["args"]["allowed-origins"] == '["*"]'
    told = "\n".join(made.notes)
    container = ("restart: always", "pid: host", "option security-opt")
    for part in (*container, "--api-key", "a, b", "10.0.0.1", "{mode:3}", "$S is not set", "1 of 2 ranks"):
        assert part in told
    assert "planted" not in made.yaml + told


def test_secrets_become_references() -> None:
    form = RankForm(model="/m", flags={}, env={"HF_TOKEN": "hf_planted", "A": "1"}, image="img:1")
    made = to_deployment(Side(label="x", kind="script", ranks=(form,)), "x")
    assert made.values["secrets"] == {"HF_TOKEN": {"file": "/etc/sparkd/hf_token"}}
    assert "hf_planted" not in made.yaml
    kept = replace(form, env={"HF_TOKEN": "<from /run/t>"})
    values: Any = to_deployment(Side(label="x", kind="deployment", ranks=(kept,)), "x").values
    assert values["secrets"] == {"HF_TOKEN": {"file": "/run/t"}}


def test_a_volume_that_docker_makes_by_itself_is_another_in_every_container() -> None:
    def made(name: str, target: str) -> RankForm:
        mounts = [{"Type": "volume", "Name": name, "Source": f"/var/lib/docker/{name}", "Destination": target}]
        one = {"Config": {"Cmd": ["vllm", "serve", "/m"], "Image": "img:1"}, "HostConfig": {}, "Mounts": mounts}
        return inspect.form(one, {"Config": {"Volumes": {"/data/": {}}}})

    declared, by_hand = (made(sign * 64, "/data") for sign in "ab")
    assert declared == by_hand == replace(declared, mounts={}), "the image says so; no file that starts it does"
    assert made("a" * 64, "/more") == made("b" * 64, "/more") == replace(declared, mounts={"/more": ""})
    assert made("named", "/data").mounts == {"/data": "named"}


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("--cpus 2.0", {"NanoCpus": 2_000_000_000}),
        ("--cpuset-cpus 0-3", {"CpusetCpus": "0-3"}),
        ("--cpu-shares 512", {"CpuShares": 512}),
        ("--pids-limit 100", {"PidsLimit": 100}),
        ("--read-only", {"ReadonlyRootfs": True}),
        ("--cap-drop ALL", {"CapDrop": ["ALL"]}),
        ("--security-opt seccomp=unconfined", {"SecurityOpt": ["seccomp=unconfined", "label=disable"]}),
        ("--sysctl net.core.somaxconn=1", {"Sysctls": {"net.core.somaxconn": "1"}}),
        ("--tmpfs /tmp:size=1g", {"Tmpfs": {"/tmp": "size=1g"}}),
        ("--dns 1.1.1.1 --dns 9.9.9.9", {"Dns": ["9.9.9.9", "1.1.1.1"]}),
        ("--oom-score-adj 500", {"OomScoreAdj": 500}),
    ],
)
def test_an_option_of_docker_is_one_finding_and_none_between_who_says_it(
    option: str, kept: dict[str, Any], tmp_path: Path
) -> None:
    def made(**host: Any) -> Side:
        config = {"Cmd": ["vllm", "serve", "/m"], "Image": "img:1"}
        form = inspect.form(
            {"Config": config, "HostConfig": {"ReadonlyRootfs": False, "PidsLimit": None, **host}}, None
        )
        return Side(label="docker", kind="inspect", ranks=(form,))

    (tmp_path / "run.sh").write_text(f"docker run {option} img:1 vllm serve /m\n")
    assert compare(read_side(tmp_path / "run.sh"), made(**kept)) == ()
    (found,) = compare(made(), made(**kept))
    assert (found.kind, found.name) == ("container", f"option {option.split()[0][2:]}")
