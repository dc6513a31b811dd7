"""model, marker, build-metadata, provides, flags: where they speak and where they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import NODES, SPARK1, SPARK2, said, scene, trouble

from sparkd.checks import build_metadata, flags, marker, model, provides
from sparkd.checks.shared.scene import HOST, Look, Place, Scene, Text
from sparkd.engines.flags import Flag, FlagTable
from sparkd.engines.vllm.variables import METHOD
from sparkd.facts.environment import ENVIRONMENT, Setting
from sparkd.facts.image import IMAGE, Image
from sparkd.facts.model import MODEL, Model, Shard, folder
from sparkd.model.config import ContainerSpec, Deployment, Mount
from sparkd.model.place import where
from sparkd.model.snapshot import Unknown

MOUNTED = ContainerSpec(
    mounts=(Mount(source="/home/milo/models", target="/models"), Mount(source="/x", target="/models/in"))
)
IN_IMAGE = Place("image", "vllm:1")


def test_a_path_is_below_its_innermost_mount_or_in_the_image() -> None:
    deployment = Deployment(name="d", engine="vllm", nodes=NODES, image="vllm:1", container=MOUNTED)
    assert where(deployment, "/models/a/config.json") == (HOST, "/home/milo/models/a/config.json")
    assert where(deployment, "/models/in/b") == (HOST, "/x/b")
    assert where(deployment, "/models") == (HOST, "/home/milo/models")
    assert where(deployment, "/modelsX") == (IN_IMAGE, "/modelsX")
    process = Deployment(name="d", engine="vllm", nodes=NODES, runtime="process")
    assert where(process, "/a/../b") == (HOST, "/b")


# --------------------------------------------------------------------------------------------------------------- model

WHOLE = Model("dir", True, True, "", (Shard("a", 10, 10), Shard("b", 20, 20)))
MODELS: list[tuple[Model, list[tuple[str, str]]]] = [
    (WHOLE, []),
    (Model("missing", False, False, "", ()), [("fail", "does not exist on spark2")]),
    (Model("dir", True, True, "", (Shard("a", None, None), Shard("b", 20, 20))), [("fail", "1 of 2 weight files")]),
    (Model("dir", True, True, "", (Shard("a", 9, 10), Shard("b", 20, 20))), [("fail", "1 weight files on spark2 are cut")]),
    (Model("dir", True, True, "", (Shard("a", 10, None), Shard("b", 21, None))), [("fail", "not the same model")]),
    (Model("dir", True, False, "", ()), [("fail", "holds no weight files")]),
    (Model("dir", False, False, "", (Shard("a", 30, None),)), [("fail", "no config.json")]),
    (Model("file", False, False, "", (Shard("a", 30, None),)), []),
]  # fmt: skip


@pytest.mark.parametrize(("second", "expected"), MODELS)
def test_model(second: Model, expected: list[tuple[str, str]]) -> None:
    found = said(model.CHECK, scene({MODEL: {SPARK1: WHOLE, SPARK2: second}}, model="/models/m", container=MOUNTED))
    assert [(node, status) for node, status, _ in found] == [(SPARK2, status) for status, _ in expected]
    assert all(words in text for (_, words), (_, _, text) in zip(expected, found, strict=True))


def test_a_model_of_the_hub_is_looked_for_in_the_ranks_cache() -> None:
    cache = ContainerSpec(mounts=(Mount(source="/home/milo/.cache/huggingface", target="/root/.cache/huggingface"),))
    deployment = Deployment(name="d", engine="vllm", nodes=NODES, image="i", model="Qwen/Qwen3-8B", container=cache)
    assert folder(deployment, SPARK1) == ("/home/milo/.cache/huggingface/hub/models--Qwen--Qwen3-8B", True)
    bare = replace(deployment, runtime="process", image=None, user="ranks", container=ContainerSpec())
    assert folder(bare, SPARK1) == ("~ranks/.cache/huggingface/hub/models--Qwen--Qwen3-8B", True)
    assert folder(replace(bare, user=None), SPARK1) == ("~/.cache/huggingface/hub/models--Qwen--Qwen3-8B", True)
    empty = Model("missing", False, False, None, ())
    at = scene({MODEL: {SPARK1: empty, SPARK2: empty}}, model="Qwen/Qwen3-8B", container=cache)
    assert [(node, status) for node, status, _ in said(model.CHECK, at)] == [(SPARK1, "warn"), (SPARK2, "warn")]


def test_a_model_inside_the_image_is_not_looked_for_on_the_nodes() -> None:
    nowhere = Model("dir", False, False, "", ())
    assert said(model.CHECK, scene({MODEL: dict.fromkeys(NODES, nowhere)}, model="/opt/model")) == []


# -------------------------------------------------------------------------------------------------------------- marker

PATCHED = "a = 1\ndel x\ntorch.cuda.empty_cache()\ntorch.cuda.empty_cache()\n"
COUNTED = {"path": "/usr/lib/mxfp4.py", "pattern": "empty_cache", "count": 2}
VALUED = {"path": "/models/X/config.json", "key": "text_config.rope_theta", "equals": 10000000}


def marked(one: dict[str, Any], *answers: object) -> Scene:
    deployment = Deployment(name="d", engine="vllm", nodes=NODES, image="vllm:1", container=MOUNTED)
    place = where(deployment, str(one["path"]))
    found: Any = {Text(node, *place): answer for node, answer in zip(NODES, answers, strict=True)}
    return scene(answers=found, markers=(one,), container=MOUNTED)


def test_a_mod_applied_once_is_well_and_twice_is_not() -> None:
    assert said(marker.CHECK, marked(COUNTED, PATCHED, PATCHED)) == []
    (found,) = trouble(marker.CHECK, marked(COUNTED, PATCHED, PATCHED + "torch.cuda.empty_cache()\n"))
    assert found.node == SPARK2
    assert "has 3 lines with `empty_cache`, 2 are right: it was applied more than once" in found.text
    assert len(found.evidence) == 3
    assert "0 lines" in said(marker.CHECK, marked(COUNTED, PATCHED, "a = 1\n"))[0][2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"text_config": {"rope_theta": 10000000}}', ""),
        ('{"text_config": {"rope_theta": 10000000.0}}', ""),
        ('{"text_config": {"rope_theta": 500000}}', "is 500000, 10000000 is right"),
        ('{"text_config": {}}', "is not there"),
        ("{", "is no JSON"),
        (None, "is not in the files of spark2"),
    ],
)
def test_a_value_in_a_json_file(text: str | None, words: str) -> None:
    found = said(marker.CHECK, marked(VALUED, '{"text_config": {"rope_theta": 10000000}}', text))
    assert len(found) == bool(words)
    assert all(words in one[2] for one in found)


def test_a_marker_that_cannot_be_read_is_unknown() -> None:
    found = said(marker.CHECK, marked(VALUED, Unknown("not under the read roots", 0.0), Unknown("mute", 0.0)))
    assert [status for _, status, _ in found] == ["unknown", "unknown"]


# ------------------------------------------------------------------------------------------------------ build-metadata

METADATA = 'build_date: "2026-11-20"\nvllm_commit: 48cebd4ad  # pinned\n'


def built(*answers: object, **equals: str) -> Scene:
    path = "/workspace/build-metadata.yaml"
    found: Any = {Text(node, IN_IMAGE, path): answer for node, answer in zip(NODES, answers, strict=True)}
    return scene(answers=found, build_metadata={"path": path, "equals": equals})


def test_build_metadata() -> None:
    assert said(build_metadata.CHECK, built(METADATA, METADATA, vllm_commit="48cebd4ad")) == []
    other = METADATA.replace("48cebd4ad", "0badcafe")
    assert [
        (node, text) for node, _, text in said(build_metadata.CHECK, built(METADATA, other, vllm_commit="48cebd4ad"))
    ] == [
        (SPARK2, "vllm_commit of vllm:1 on spark2 is 0badcafe, 48cebd4ad is wanted"),
        (SPARK2, "/workspace/build-metadata.yaml says something else on spark2 than on the other nodes"),
    ]
    assert "not there" in said(build_metadata.CHECK, built(METADATA, METADATA, torch="2.9"))[0][2]
    assert "is not in vllm:1" in said(build_metadata.CHECK, built(METADATA, None))[0][2]


# ------------------------------------------------------------------------------------------------------------ provides

IMG = Image("sha256:1", "arm64", ("PATH=/opt/venv/bin:/usr/bin", "PYTHONPATH=/extra"))


def providing(there: set[str], **provides_: Any) -> Scene:
    facts = {IMAGE: dict.fromkeys(NODES, IMG)}
    at = scene(facts, provides=provides_)
    answers: Any = {
        ask: "dir" if ask.path in there else "missing" for ask in provides.CHECK.asks(at) if isinstance(ask, Look)
    }
    return scene(facts, answers=answers, provides=provides_)


@pytest.mark.parametrize(
    ("there", "well"),
    [
        ("/opt/venv/lib/python3.12/site-packages/deep_gemm", True),
        ("/usr/lib/python3/dist-packages/deep_gemm.py", True),
        ("/extra/deep_gemm", True),
        ("/somewhere/else/deep_gemm", False),
    ],
)
def test_a_module_is_looked_for_where_the_image_would_find_it(there: str, well: bool) -> None:
    found = said(provides.CHECK, providing({there}, modules=["deep_gemm"]))
    assert len(found) == (0 if well else 2)


def test_programs() -> None:
    assert said(provides.CHECK, providing({"/opt/venv/bin/vllm"}, binaries=["vllm"])) == []
    assert said(provides.CHECK, providing({"/start.sh"}, binaries=["/start.sh"])) == []
    assert (
        "the program nvcc is not in vllm:1 on spark1" in said(provides.CHECK, providing(set(), binaries=["nvcc"]))[0][2]
    )


# --------------------------------------------------------------------------------------------------------------- flags

FORK = {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}
SPAWN = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
NOWHERE: Any = {ENVIRONMENT: {SPARK1: (), SPARK2: ()}}


def plain(facts: Any = None, **deployment: Any) -> Scene:
    """Nodes that set nothing by themselves."""
    return scene({**NOWHERE, **(facts or {})}, **deployment)


def test_fork_is_named_wherever_it_is_set() -> None:
    assert [node for node, _, _ in said(flags.CHECK, plain(env=FORK))] == [SPARK1, SPARK2]
    one = trouble(flags.CHECK, plain(env=SPAWN, node_env={SPARK2: FORK}))
    assert [(found.node, found.rank, found.status) for found in one if found.node] == [(SPARK2, 1, "fail")]
    forked = {IMAGE: {SPARK1: IMG, SPARK2: Image("sha256:1", "arm64", ("VLLM_WORKER_MULTIPROC_METHOD=fork",))}}
    assert "image vllm:1 on spark2 sets" in said(flags.CHECK, plain(forked))[0][2]
    assert said(flags.CHECK, plain(forked, env=SPAWN)) == []


AROUND: list[tuple[str, dict[str, Any], list[str]]] = [
    ("systemd", {"runtime": "process", "image": None}, ["fail"]),
    ("systemd", {}, ["warn"]),
    ("/etc/environment", {"runtime": "process", "image": None}, ["warn"]),
    ("/etc/environment", {"env": SPAWN}, []),
]


@pytest.mark.parametrize(("source", "deployment", "statuses"), AROUND)
def test_fork_that_a_node_sets_for_all_that_is_started_there(
    source: str, deployment: dict[str, Any], statuses: list[str]
) -> None:
    facts = {ENVIRONMENT: {SPARK1: (), SPARK2: (Setting(source, METHOD, "fork"),)}}
    found = said(flags.CHECK, plain(facts, **deployment))
    assert [(node, status) for node, status, _ in found] == [(SPARK2, status) for status in statuses]
    assert all(text.startswith(f"{source} on spark2 gives ") for _, _, text in found)
    spawned = {ENVIRONMENT: {SPARK1: (), SPARK2: (Setting(source, METHOD, "spawn"),)}}
    assert said(flags.CHECK, plain(spawned, **deployment)) == []


ARGS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"max-model-len": 1024, "enforce-eager": True, "dtype": "auto", "gpu-memory-utilization": "0.90"}, []),
    ({"dtype": "fp8"}, [("warn", "refuses --dtype fp8")]),
    ({"max-modellen": 1}, [("warn", "has no flag --max-modellen")]),
    ({"gpu-memory-utilization": 90}, [("fail", "a share of the memory")]),
    ({"speculative-config": {"method": "mtp"}}, []),
    ({"speculative-config": "{method: mtp}"}, [("fail", "quotes eaten")]),
    ({"compilation-config.mode": "3"}, []),
]


@pytest.mark.parametrize(("args", "expected"), ARGS)
def test_flags(args: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = said(flags.CHECK, plain(args=args))
    assert [(status, words in text) for (_, status, text), (_, words) in zip(found, expected, strict=True)] == [
        (status, True) for status, _ in expected
    ]


OWN = FlagTable(
    engine="vllm",
    version="0.40.0",
    own=True,
    flags={"dtype": Flag(name="dtype", choices=("auto", "fp4")), "new": Flag(name="new", kind="int")},
    spellings={"--dtype": "dtype", "--new": "new"},
    variables=frozenset({"VLLM_NEW"}),
)


@pytest.mark.parametrize(
    ("args", "own", "shipped"),
    [
        ({"dtype": "fp4", "new": 1}, [], ["refuses --dtype fp4", "has no flag --new"]),
        ({"dtype": "fp8"}, ["refuses --dtype fp8: it is one of auto, fp4"], ["refuses --dtype fp8"]),
        ({"max-model-len": 1}, ["has no flag --max-model-len"], []),
        ({"new": "x"}, ["refuses --new x: it wants a whole number"], ["has no flag --new"]),
    ],
)
def test_the_images_own_parser_holds_and_the_shipped_table_warns(
    args: dict[str, Any], own: list[str], shipped: list[str]
) -> None:
    asked = said(flags.CHECK, replace(plain(args=args), parser=OWN))
    assert [(status, text) for _, status, text in asked] == [
        ("fail", f"the image's own vllm 0.40.0 {words}") for words in own
    ]
    unasked = trouble(flags.CHECK, replace(plain(args=args), unasked="nobody has asked it"))
    assert [one.status for one in unasked] == ["warn"] * len(shipped)
    for one, words in zip(unasked, shipped, strict=True):
        assert one.text.startswith(f"sparkd's table of vllm 0.32.0 {words}")
        assert one.evidence == ("judged by sparkd's table of vllm 0.32.0", "nobody has asked it")


def test_variables_that_the_engine_does_not_read() -> None:
    env = {"VLLM_NEW": "1", "VLLM_NWE": "1", "NCCL_DEBUG": "INFO", "OTHER": "1"}
    found = trouble(flags.CHECK, replace(plain(env=env), parser=OWN))
    assert [(one.status, one.text, one.fix) for one in found] == [
        (
            "warn",
            "the image's own vllm 0.40.0 does not know the variable VLLM_NWE",
            "in demo.yaml: did you mean VLLM_NEW?",
        )
    ]
    everywhere = plain(env={"VLLM_A1": "1"}, secrets={"VLLM_B2": "/f"}, node_env={SPARK1: {"VLLM_C3": "1"}})
    names = [one.text.rpartition(" ")[2] for one in trouble(flags.CHECK, everywhere) if "variable" in one.text]
    assert names == ["VLLM_A1", "VLLM_B2", "VLLM_C3"]
    known = {"VLLM_HOST_IP": "10.0.0.1", "VLLM_API_KEY": "x", "VLLM_CACHE_ROOT": "/cache"}
    assert said(flags.CHECK, plain(env=known)) == []


def test_a_variable_that_ends_the_engine_is_no_mere_warning() -> None:
    strict = replace(OWN, flags={**OWN.flags, "fail-on-environ-validation": Flag(name="fail", kind="switch")})
    strict = replace(strict, spellings={**OWN.spellings, "--fail-on-environ-validation": "fail-on-environ-validation"})
    at = replace(plain(env={"VLLM_NWE": "1"}, args={"fail-on-environ-validation": True}), parser=strict)
    assert [status for _, status, _ in said(flags.CHECK, at)] == ["fail"]


def test_an_engine_without_a_table_is_left_alone() -> None:
    assert said(flags.CHECK, plain(engine="command", args={"anything": 1})) == []


def test_what_only_some_ranks_are_told() -> None:
    uneven = plain(
        node_env={
            SPARK1: {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_HOST_IP": "10.0.0.1"},
            SPARK2: {"VLLM_HOST_IP": "10.0.0.2"},
        }
    )
    assert [(node, status, "VLLM_LOGGING_LEVEL" in text) for node, status, text in said(flags.CHECK, uneven)] == [
        (None, "warn", True)
    ]
