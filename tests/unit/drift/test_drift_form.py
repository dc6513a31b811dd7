"""The canonical form: however it is written, the same; whatever is changed, one finding."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from drift_spelling import NAMES, TABLE, settings, spell, values
from hypothesis import given, note
from hypothesis import strategies as st

from sparkd.drift import RankForm, Severity, Side, compare
from sparkd.drift.argv import read_argv, spelled
from sparkd.drift.values import NotJson, amount, by_kind, from_json, number, path, same
from sparkd.drift.veil import MOST_HELD, veiled
from sparkd.model.hiding import BY_NAME
from sparkd.model.secret import HIDDEN

ENV = {"NCCL_SOCKET_IFNAME": "bond0", "OMP_NUM_THREADS": "8", "VLLM_HOST_IP": "10.0.0.1"}
SPEC = {"privileged": True, "network": "host", "ipc": "host", "gpus": "all"}
MOUNTS = {"/models": "/srv/models (read only)", "/root/.cache/vllm": "/srv/cache"}


def form(words: list[str]) -> RankForm:
    found = read_argv(words, TABLE)
    assert not found.extra
    return RankForm(
        program=("vllm", "serve"),
        model=found.model,
        flags=found.flags,
        env=ENV,
        image="engine:1",
        container=SPEC,
        mounts=MOUNTS,
    )


def side(*forms: RankForm, label: str = "side") -> Side:
    return Side(label=label, kind="script", ranks=forms)


@given(settings(), st.integers(0, 1 << 30))
def test_one_meaning_has_one_form_however_it_is_spelled(chosen: dict[str, Any], seed: int) -> None:
    one, other = (spell(chosen, random.Random(seed + at)) for at in (0, 1))
    note(f"{one}\n{other}")
    assert form(one) == form(other)
    assert compare(side(form(one)), side(form(other))) == ()


@given(settings(), st.integers(0, 1 << 30))
def test_a_form_written_as_words_again_is_the_same_form(chosen: dict[str, Any], seed: int) -> None:
    before = form(spell(chosen, random.Random(seed)))
    assert before.flags is not None
    json_lists = [
        name for name, value in before.flags.items() if isinstance(value, list) and TABLE.flags[name].kind == "json"
    ]
    flags = {name: value for name, value in before.flags.items() if name not in json_lists}
    words = [word for name, value in flags.items() for word in spelled(name, value)]
    assert read_argv(["/models/X", *words], TABLE).flags == flags


@st.composite
def changed_settings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two of them that differ in the meaning of one flag: another value, one more, or one less."""
    before = draw(settings())
    name = draw(st.sampled_from(NAMES))
    flag = TABLE.flags[name]
    after = dict(before)
    if name in before and draw(st.booleans()):
        del after[name]
    else:
        after[name] = draw(values(flag).filter(lambda value: not same(value, before.get(name))))
    return before, after


@given(changed_settings(), st.integers(0, 1 << 30))
def test_one_change_is_one_finding_or_several_keys_of_one_value(
    both: tuple[dict[str, Any], dict[str, Any]], seed: int
) -> None:
    before, after = both
    (name,) = {
        key for key in {*before, *after} if key not in before or key not in after or not same(before[key], after[key])
    }
    found = compare(side(form(spell(before, random.Random(seed)))), side(form(spell(after, random.Random(seed + 1)))))
    assert {one.name.partition(".")[0] for one in found} == {f"--{name}"}
    both_json = isinstance(before.get(name), dict) and isinstance(after.get(name), dict)
    assert len(found) == 1 or both_json
    assert all(one.kind == "flag" and one.rank == 0 for one in found)


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        ({"env": {**ENV, "ADDED": "1"}}, "env", "ADDED"),
        ({"env": {**ENV, "OMP_NUM_THREADS": "4"}}, "env", "OMP_NUM_THREADS"),
        ({"env": {key: ENV[key] for key in list(ENV)[1:]}}, "env", "NCCL_SOCKET_IFNAME"),
        ({"image": "engine:2"}, "image", "name"),
        ({"model": "/models/Y"}, "flag", "model"),
        ({"container": {**SPEC, "ipc": "private"}}, "container", "ipc"),
        ({"container": {**SPEC, "memory": 1 << 30}}, "container", "memory"),
        ({"container": {**SPEC, "restart": "unless-stopped"}}, "container", "restart"),
        ({"mounts": {**MOUNTS, "/models": "/srv/models"}}, "container", "mount /models"),
        ({"mounts": {"/models": MOUNTS["/models"]}}, "container", "mount /root/.cache/vllm"),
    ],
)
def test_every_section_gives_one_finding_for_one_change(change: dict[str, Any], kind: str, name: str) -> None:
    before = form(["/models/X", "-tp", "2"])
    (found,) = compare(side(before), side(replace(before, **change)))
    assert (found.kind, found.name) == (kind, name)
    assert found.severity is not Severity.BENIGN
    assert found.fix


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.90", 0.9),
        (".9", 0.9),
        ("2.0", 2),
        ("2", 2),
        ("1e3", 1000),
        ("-1", -1),
        ("2x", None),
        ("", None),
        ("1e999", None),
    ],
)
def test_numbers_count_by_amount(text: str, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("4k", 4000), ("4K", 4096), ("1.5k", 1500), ("1.5K", None), ("2m", 2_000_000), ("1G", 1 << 30)]
)
def test_sizes_count_as_vllm_reads_them(text: str, value: int | None) -> None:
    """Small letters are powers of ten, capitals of two; a fraction of the latter is refused (vllm.utils.argparse_utils)."""
    assert amount(text) == value


def test_max_model_len_may_be_auto() -> None:
    flag = TABLE.flags["max-model-len"]
    assert by_kind("auto", flag) == by_kind("-1", flag) == -1


@pytest.mark.parametrize(
    ("text", "tidy"),
    [("/models//X/", "/models/X"), ("/a/../b", "/b"), ("org/model", "org/model"), ("//x", "/x"), ("/", "/")],
)
def test_paths_lose_their_detours(text: str, tidy: str) -> None:
    assert path(text) == tidy


def test_true_is_not_one() -> None:
    assert not same(True, 1)
    assert not same({"a": [True]}, {"a": [1]})
    assert same({"a": 1, "b": 2.0}, {"b": 2, "a": 1.0})


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("{cudagraph_mode:FULL_AND_PIECEWISE}", True),
        ("{method:ngram,num_speculative_tokens:2}", True),
        ("[all]", True),
        ("{'a': 1}", True),
        ('{"a": 1', False),
        ("FULL", False),
    ],
)
def test_a_value_that_is_no_json_says_whether_its_quotes_are_gone(text: str, lost: bool) -> None:
    assert from_json(text) == NotJson(text, lost)


def test_numbers_in_json_may_have_a_unit_as_vllm_allows() -> None:
    assert from_json('{"cpu_bytes_to_use": 80m, "name": "80m"}') == {"cpu_bytes_to_use": 80_000_000, "name": "80m"}


# -------------------------------------------------------------------------------------------------- vLLM's own parser


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--tensor-parallel", "2"], "tensor-parallel-size", 2),
        (["--tensor_parallel_size=2"], "tensor-parallel-size", 2),
        (["--no-enable-prefix-caching"], "enable-prefix-caching", False),
        (["-ep"], "enable-expert-parallel", True),
        (["-cc.cudagraph_mode", "FULL"], "compilation-config", {"cudagraph_mode": "FULL"}),
        (["-O.cudagraph_mode=FULL"], "compilation-config", {"cudagraph_mode": "FULL"}),
        (["-sc.model", "a.b", "-sc.tokens=2"], "speculative-config", {"model": "a.b", "tokens": 2}),
        (["--kv-transfer-config.list+", "a,b", "--kv-transfer-config.list+=c"], "kv-transfer-config", {"list": ["a", "b", "c"]}),
        (["--compilation-config", '{"mode":3}', "-cc.cudagraph_mode=FULL"], "compilation-config", {"cudagraph_mode": "FULL"}),
        (["-sc.a", "1", "--speculative-config.b=2"], "speculative-config", {"b": 2}),
        (["--optimization-level", "3"], "optimization-level", 3),
        (["--kv-offloading-size", "1.50"], "kv-offloading-size", 1.5),
        (["--prefix-cache-retention-interval", "None"], "prefix-cache-retention-interval", None),
        (["--served-model-name", "a", "b"], "served-model-name", ["a", "b"]),
        (["--middleware", "a", "--middleware=b"], "middleware", ["a", "b"]),
        (["--hf-token"], "hf-token", True),
        (["--max-num-batched-tokens", "16K"], "max-num-batched-tokens", 16384),
        (["--from-a-fork", "0.50"], "from-a-fork", 0.5),
        (["--no-from-a-fork"], "from-a-fork", False),
        (["--from-a-fork"], "from-a-fork", True),
        (["--seed", "-1"], "seed", -1),
    ],
)  # fmt: skip
def test_flags_are_read_as_the_engine_reads_them(words: list[str], name: str, value: Any) -> None:
    assert read_argv(["/models/X", *words], TABLE).flags == {name: value}


def test_nothing_said_on_purpose_is_not_said() -> None:
    assert read_argv(["/models/X", "--quantization", "None"], TABLE).flags == {}


def test_words_that_belong_to_no_flag_are_kept() -> None:
    assert read_argv(["/models/X", "stray", "--enforce-eager"], TABLE).extra == ("stray",)


def test_a_form_with_a_thousand_secrets_is_none_that_can_be_kept() -> None:
    """Each is looked for in every leaf, in a hundred spellings; an engine may write what it likes over its environment."""
    env = {f"A{number}": f"http://u:password{number}@h" for number in range(MOST_HELD + 1)}
    with pytest.raises(ValueError, match=f"more than {MOST_HELD}"):
        veiled(RankForm(rank=0, node="a", env=env), BY_NAME)
    del env["A0"]
    kept = veiled(RankForm(rank=0, node="a", env=env), BY_NAME)
    assert kept.env["A1"] == f"http://u:{HIDDEN}@h"
