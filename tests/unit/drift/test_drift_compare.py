"""Differences: what is told, how bad it is called, and what is kept quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.drift import Difference, Gap, RankForm, Side, compare, not_compared
from sparkd.drift.argv import read_argv
from sparkd.drift.difference import Severity
from sparkd.drift.known_good import as_yaml, from_plain
from sparkd.drift.severities import Rule, rule_for, rules
from sparkd.drift.veil import Veil
from sparkd.drift.yaml import dump
from sparkd.engines.flags import FlagTable, parse_table
from sparkd.engines.tables import Tables, shipped
from sparkd.model.secret import HIDDEN
from sparkd.settings.reader import parse

TABLE = shipped("vllm")

COMMON = (
    "/models/X --tensor-parallel-size 2 --max-model-len 131072 --max-num-seqs 8 --enable-expert-parallel "
    "--gpu-memory-utilization 0.90 --nnodes 2 --master-addr 10.0.0.1 --master-port 29501"
)
ENV = {"NCCL_SOCKET_IFNAME": "bond0", "GLOO_SOCKET_IFNAME": "bond0", "OMP_NUM_THREADS": "8"}


def rank(number: int, more: str = "", less: tuple[str, ...] = (), **changes: Any) -> RankForm:
    place = f" --node-rank {number}{' --headless' if number else ''} {more}"
    found = read_argv((COMMON + place).split(), TABLE)
    flags = {name: value for name, value in found.flags.items() if name not in less}
    env = {**ENV, "VLLM_HOST_IP": f"10.0.0.{number + 1}"}
    base = RankForm(rank=number, node=f"spark{number + 1}", model=found.model, flags=flags, env=env)
    return replace(base, **changes)


def group(*ranks: RankForm, label: str = "good", gaps: tuple[Gap, ...] = ()) -> Side:
    return Side(label=label, kind="known-good", ranks=ranks, gaps=gaps)


GOOD = group(rank(0), rank(1))


def told(found: tuple[Difference, ...]) -> set[tuple[str, str, int | None]]:
    return {(str(one.severity), one.name, one.rank) for one in found}


def test_a_healthy_pair_has_no_differences() -> None:
    assert compare(GOOD, group(rank(0), rank(1), label="live")) == ()


def test_the_hand_restart_of_the_first_report_is_named_exactly() -> None:
    """200000 and 4 instead of 131072 and 8, no expert parallelism, and fork."""
    drifted = [
        rank(
            number,
            "--max-model-len 200000 --max-num-seqs 4",
            ("enable-expert-parallel",),
            env={**rank(number).env, "VLLM_WORKER_MULTIPROC_METHOD": "fork", "ADDED": "1"},
        )
        for number in (0, 1)
    ]
    found = compare(GOOD, group(*drifted, label="live"))
    assert told(found) == {
        ("breaks", "VLLM_WORKER_MULTIPROC_METHOD", None),
        ("slows", "--max-model-len", None),
        ("slows", "--max-num-seqs", None),
        ("slows", "--enable-expert-parallel", None),
        ("unknown", "ADDED", None),
    }
    assert found[0].name == "VLLM_WORKER_MULTIPROC_METHOD"
    assert "ShmRingBuffer" in str(found[0].why)
    assert found[0].fix == "unset VLLM_WORKER_MULTIPROC_METHOD"


def test_spawn_is_what_vllm_serve_sets_anyway() -> None:
    spawned = [rank(n, env={**rank(n).env, "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}) for n in (0, 1)]
    (found,) = compare(GOOD, group(*spawned))
    assert found.severity is Severity.BENIGN


@pytest.mark.parametrize(
    "more",
    [
        "--pipeline-parallel-size 1",
        "--no-enforce-eager",
        "--kv-cache-dtype auto",
        "--port 8000",
        "--host 0.0.0.0",
        "-O2",
        "--cpu-offload-gb 0.0",
        '--compilation-config={"custom_ops":[]}',
    ],
)
def test_what_is_the_default_is_benign_when_said(more: str) -> None:
    (found,) = compare(group(rank(0)), group(rank(0, more)))
    assert found.severity is Severity.BENIGN
    assert str(found.why).startswith("the default of vllm 0.32")


@pytest.mark.parametrize("more", ["--no-enable-prefix-caching", "--max-num-batched-tokens 2048", "--seed 1"])
def test_what_the_engine_decides_by_itself_is_no_default(more: str) -> None:
    (found,) = compare(group(rank(0)), group(rank(0, more)))
    assert found.severity is not Severity.BENIGN


@pytest.mark.parametrize(("name", "kept"), [("VLLM_LOGGING_LEVEL", "INFO"), ("VLLM_USE_MODELSCOPE", "0")])
def test_a_variable_at_its_default_is_benign(name: str, kept: str) -> None:
    (found,) = compare(group(rank(0)), group(rank(0, env={**rank(0).env, name: kept})))
    assert found.severity is Severity.BENIGN


def test_json_is_compared_key_by_key() -> None:
    one = rank(0, '--speculative-config={"method":"deepseek_mtp","num_speculative_tokens":2}')
    other = rank(0, '--speculative-config={"num_speculative_tokens":3,"method":"deepseek_mtp"}')
    (found,) = compare(group(one), group(other))
    assert (found.name, found.known, found.live) == ("--speculative-config.num_speculative_tokens", 2, 3)
    assert found.severity is Severity.SLOWS


def test_json_that_lost_its_quotes_is_named_as_that() -> None:
    one = rank(0, '--compilation-config={"cudagraph_mode":"FULL_AND_PIECEWISE"}')
    other = rank(0, "--compilation-config {cudagraph_mode:FULL_AND_PIECEWISE}")
    (found,) = compare(group(one), group(other))
    assert found.severity is Severity.BREAKS
    assert "quotes of its JSON were eaten" in str(found.why)
    assert "argument vector" in str(found.fix)


def test_a_choice_that_the_parser_lacks_breaks() -> None:
    """Third report: `--dtype fp8`; recorded: exit 2 (evidence 16)."""
    (found,) = compare(group(rank(0)), group(rank(0, "--dtype fp8")))
    assert found.severity is Severity.BREAKS
    assert "bfloat16" in str(found.why)


def test_a_flag_that_the_parser_lacks_is_said_to_be_unlisted() -> None:
    (found,) = compare(group(rank(0)), group(rank(0, "--no-such-flag-here 3")))
    assert found.severity is Severity.UNKNOWN
    assert "has no such flag" in str(found.why)


# ----------------------------------------------------------------------------------------------------------- the ranks


@pytest.mark.parametrize("more", ["--max-model-len 512", "--max-num-seqs 2"])
def test_one_rank_apart_is_one_finding_that_breaks(more: str) -> None:
    """Recorded on real ranks: they serve until the request that shows it (evidence 12a, 12c)."""
    (found,) = compare(GOOD, group(rank(0), rank(1, more)))
    assert (found.severity, found.rank, found.node) == (Severity.BREAKS, 1, "spark2")
    if "seqs" in more:
        assert "evidence 12c" in str(found.why)


def test_ranks_that_differ_on_both_sides_are_told_once_as_ranks() -> None:
    apart = group(rank(0), rank(1, "--max-num-seqs 2"))
    (found,) = compare(apart, apart)
    assert (found.kind, found.name, found.known, found.live) == ("rank", "--max-num-seqs", 8, 2)


def test_ranks_may_differ_in_what_belongs_to_a_node_or_to_the_head() -> None:
    pair = group(
        rank(0, "--port 9000 --tool-call-parser hermes"),
        rank(1, env={**rank(1).env, "NCCL_SOCKET_IFNAME": "enp1s0f1np1"}),
    )
    assert compare(pair, pair) == ()


def test_different_images_on_two_ranks_break() -> None:
    pair = group(rank(0, image="engine:1"), rank(1, image="engine:2"))
    (found,) = compare(pair, pair)
    assert (found.severity, found.kind, found.name) == (Severity.BREAKS, "rank", "image")


def test_containers_of_one_group_are_created_alike() -> None:
    pair = group(rank(0, container={"ipc": "host"}), rank(1, container={"ipc": "host", "privileged": True}))
    (found,) = compare(pair, pair)
    assert (found.severity, found.name, found.rank) == (Severity.UNKNOWN, "privileged", 1)


def test_what_is_left_out_counts_as_what_the_parser_takes() -> None:
    (found,) = compare(group(rank(0)), group(rank(0, less=("gpu-memory-utilization",))))
    assert (found.severity, found.known, found.live) == (Severity.BREAKS, 0.9, None)
    assert str(found.why).endswith("without it vllm 0.32.0 takes 0.92")


def test_a_head_script_and_a_worker_script_are_compared_as_one_group() -> None:
    assert compare(group(rank(0)), group(rank(1))) == ()
    (found,) = compare(group(rank(0)), group(rank(1, "--max-num-seqs 2")))
    assert (found.kind, found.severity) == ("rank", Severity.BREAKS)


@pytest.mark.parametrize("turned", [False, True], ids=["head-worker", "worker-head"])
def test_a_worker_without_headless_is_found_beside_its_head(turned: bool) -> None:
    """Two hours of the first field report, and no value differs: neither script has the flag."""
    sides = [group(rank(0)), group(rank(1, less=("headless",)))]
    head, worker = reversed(sides) if turned else sides
    (found,) = compare(head, worker)
    assert (found.severity, found.kind, found.name, found.rank) == (Severity.BREAKS, "rank", "--headless", 1)
    assert "second API server" in str(found.why)
    assert found.fix == "give rank 1 `--headless`"


def test_live_ranks_without_headless_are_found_where_nothing_says_how_it_should_be() -> None:
    bad = group(rank(0), rank(1, less=("headless",)), label="live")
    assert told(compare(GOOD, bad)) == {("breaks", "--headless", 1)}
    assert told(compare(bad, bad)) == {("breaks", "--headless", 1)}


def test_a_rank_that_no_number_makes_a_worker_needs_no_headless() -> None:
    alone = rank(0, less=("node-rank",))
    assert compare(group(alone), group(replace(alone, rank=1))) == ()


def test_json_that_lost_its_quotes_on_one_rank_is_named_as_that() -> None:
    head = rank(0, '--compilation-config={"cudagraph_mode":"FULL_AND_PIECEWISE"}')
    (found,) = compare(group(head), group(rank(1, "--compilation-config {cudagraph_mode:FULL_AND_PIECEWISE}")))
    assert (found.kind, found.severity) == ("rank", Severity.BREAKS)
    assert "quotes of its JSON were eaten" in str(found.why)
    assert "argument vector" in str(found.fix)


def test_what_only_an_api_server_reads_is_benign_on_a_headless_rank() -> None:
    found = compare(GOOD, group(rank(0), rank(1, "--tool-call-parser hermes --served-model-name x")))
    assert {one.severity for one in found} == {Severity.BENIGN}


def test_one_rank_can_be_asked_for() -> None:
    live = group(rank(0), rank(1, "--max-num-seqs 2"))
    assert compare(GOOD, live, rank=0) == ()
    assert [one.rank for one in compare(GOOD, live, rank=1)] == [1]


# ----------------------------------------------------------------------------------------- what a side does not say


def test_a_section_that_one_side_does_not_say_is_no_difference() -> None:
    said = rank(0, image="engine:1", container={"ipc": "host"}, mounts={"/models": "/srv"})
    assert compare(group(rank(0)), group(said)) == ()
    assert not_compared(group(rank(0), label="A"), group(said)) == ("container, image, mounts: A does not say",)
    both = group(said, replace(said, rank=1))
    assert not_compared(group(rank(0), rank(1), label="A"), both) == ("container, image, mounts: A does not say",)
    assert not_compared(group(said, rank(1), label="A"), both) == (
        "container, image, mounts of rank 1: A does not say",
    )


def test_a_missing_rank_is_told_as_not_compared() -> None:
    assert not_compared(GOOD, group(rank(0), label="head.sh")) == ("rank 1: head.sh does not say",)


def test_the_image_brings_variables_that_no_file_says() -> None:
    running = rank(0, env={**rank(0).env, "NV_LIBNCCL_VERSION": "2.28", "NCCL_DEBUG": "INFO"}, env_whole=True)
    assert told(compare(group(rank(0)), group(running))) == {("unknown", "NCCL_DEBUG", 0)}


@pytest.mark.parametrize(
    ("one", "other"),
    [("engine", "engine:latest"), ("docker.io/library/engine:1", "engine:1"), ("host:5000/e", "host:5000/e:latest")],
)
def test_image_names_count_by_what_they_name(one: str, other: str) -> None:
    assert compare(group(rank(0, image=one)), group(rank(0, image=other))) == ()


def test_an_image_id_counts_more_than_its_name() -> None:
    one, other = rank(0, image="engine:1", image_id="sha256:a"), rank(0, image="other", image_id="sha256:a")
    assert compare(group(one), group(other)) == ()
    assert told(compare(group(one), group(replace(one, image_id="sha256:b")))) == {("unknown", "id", 0)}


def test_what_could_not_be_followed_is_unknown_with_its_place() -> None:
    gaps = (
        Gap(where="a.sh:3", text="$LEN", why="$LEN is not set in this file"),
        Gap(where="a.sh:9", text="", why="more.sh is not at hand"),
    )
    found = compare(group(rank(0)), group(rank(0, "--max-model-len $LEN"), gaps=gaps))
    assert [(str(one.severity), one.name, one.why) for one in found] == [
        ("unknown", "--max-model-len", "a.sh:3: $LEN is not set in this file"),
        ("unknown", "a.sh:9", "more.sh is not at hand"),
    ]
    same = group(rank(0, "--max-model-len $LEN"), gaps=gaps)
    assert compare(same, same) == ()


# ------------------------------------------------------------------------------------------------------------- secrets


def test_no_secret_is_in_any_finding() -> None:
    secret = "sk-planted-9876"
    hidden = rank(
        0,
        f"--api-key {secret} --max-num-batched-tokens 4096",
        env={**rank(0).env, "HF_TOKEN": secret, "AWS_SECRET_ACCESS_KEY": secret, "NOTE": f"use {secret}"},
        mounts={"/x": f"/run/{secret}"},
    )
    gaps = (
        Gap(where="a.sh:1", text="", why=f"eval HF_TOKEN=other-{secret[::-1]} --api-key 'abc def' is not followed"),
    )
    good = group(rank(0, mounts={"/x": "/run"}))
    for found in (compare(good, group(hidden, gaps=gaps)), compare(group(hidden, gaps=gaps), good)):
        text = repr([one.as_json() for one in found])
        assert secret not in text
        assert secret[::-1] not in text
        assert "abc def" not in text
        assert {"HF_TOKEN", "--api-key", "--max-num-batched-tokens"} <= {one.name for one in found}
        assert "4096" in text
        assert HIDDEN in text
    assert secret not in as_yaml(group(hidden), {})


def test_a_secret_by_reference_equals_any_value_of_it() -> None:
    one, other = (rank(0, env={"HF_TOKEN": value}) for value in ("<from /etc/sparkd/hf_token>", "hf_abcdefgh"))
    assert compare(group(one), group(other)) == ()
    third = rank(0, env={"HF_TOKEN": "hf_other_one"})
    (found,) = compare(group(other), group(third))
    assert (found.known, found.live) == (HIDDEN, HIDDEN)


# --------------------------------------------------------------------------------------------------- tables and records


def test_an_image_that_said_its_own_defaults_is_read_by_them() -> None:
    """Explicitly the default is benign, and what the default is only the image knows: forks change it."""
    flag = replace(TABLE.flags["max-num-seqs"], default=77)
    own = Tables({"sha256:forked": replace(TABLE, flags={**TABLE.flags, "max-num-seqs": flag}, own=True)})
    for image, severity in (("sha256:forked", {"benign"}), ("sha256:other", {"slows"})):
        known, live = (
            group(*(rank(number, more, image_id=image) for number in (0, 1))) for more in ("", "--max-num-seqs 77")
        )
        bare = replace(
            known, ranks=tuple(replace(one, flags=_without(one.flags, "max-num-seqs")) for one in known.ranks)
        )
        assert {str(one.severity) for one in compare(bare, live, tables=own)} == severity


def _without(flags: Any, name: str) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if key != name}


@pytest.mark.parametrize("rule", rules("vllm"), ids=lambda rule: f"{rule.kind} {rule.name} {rule.change}")
def test_every_row_of_the_table_can_be_reached(rule: Rule) -> None:
    known, live = {
        "any": (2, 3),
        "added": (None, True),
        "dropped": (True, None),
        "raised": (1, 2),
        "lowered": (2, 1),
    }.get(rule.change, (None, rule.change[1:]))
    names = [rule.name.replace("*", filling) for filling in ("", "x", "X_Y", ".key", "/srv/x")]
    reached = [
        rule_for("vllm", rule.kind, name, one, other) for name in names for one, other in ((known, live), ("a", "b"))
    ]
    assert rule in reached
    assert rule.why[0].islower() or rule.why.startswith(("TCP", "NCCL", "CUTLASS", "FP8", "RDMA", "Docker"))
    assert not rule.why.endswith(".")
    assert rule.source


def test_the_shipped_table_holds_the_flags_that_the_engine_adapter_gives() -> None:
    assert TABLE.version == "0.32.0"
    assert {"nnodes", "node-rank", "master-addr", "master-port", "headless", "host", "port"} <= set(TABLE.flags)
    assert TABLE.find("-tp") == TABLE.find("--tensor-parallel-size")
    assert TABLE.find("--tensor-par") == TABLE.find("-tp")
    assert TABLE.find("--max-num") is None
    assert TABLE.env["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


@pytest.mark.parametrize("text", ["[]", '{"schema": 1}', '{"schema": 2}', '{"schema": 2, "flags": 3}', "{"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a parser table|Expecting"):
        parse_table(text)


def test_an_engine_without_a_table_has_an_empty_one() -> None:
    assert shipped("sglang") == FlagTable(engine="sglang", version="")


def test_a_known_good_file_is_read_as_it_was_written() -> None:
    side = group(
        rank(
            0,
            '--compilation-config={"custom_ops":["all"]}',
            image="engine:1",
            container={"ipc": "host"},
            unit={"A": "b"},
        ),
        rank(
            1, "--from-a-fork", env={"ODD": "a: b # 'c' \"d\" \\ \n$e", "YES": "yes", "N": "0.90"}, mounts={"/m": "/s"}
        ),
    )
    about = {"deployment": "ds4", "generation": 14, "note": "it: works", "measured": {"decode_tokens_per_second": 37.2}}
    text = as_yaml(side, about)
    tree, problems = parse(text.encode(), "known-good.yaml")
    assert not problems
    assert tree is not None
    read = from_plain(tree.plain(), "good")
    assert read.ranks == side.ranks
    assert tree.plain()["measured"] == {"decode_tokens_per_second": 37.2}
    assert as_yaml(replace(read, label=side.label), about) == text


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({}, "not a known-good record"),
        ({"schema": 1, "kind": "known-good"}, "no ranks"),
        ({"schema": 1, "kind": "known-good", "ranks": [{"rnak": 1}]}, "no `rnak`"),
        ({"schema": 1, "kind": "known-good", "ranks": [{"env": 1}]}, "`env` of a rank"),
        ({"schema": 1, "kind": "known-good", "ranks": ["x"]}, "is a mapping"),
        ({"schema": 1, "kind": "known-good", "ranks": [{"rank": "x"}]}, "is no number"),
    ],
)
def test_a_bad_record_is_refused_with_its_reason(record: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_plain(record, "x")


ODD_TEXTS = (
    "",
    "yes",
    "0.90",
    "a: b",
    "- x",
    "#x",
    "a #b",
    "x:",
    "~",
    "null",
    "'",
    '"',
    "\t",
    "ü",
    "{a}",
    "*x",
    "&x",
    "!x",
)


@pytest.mark.parametrize("value", [*ODD_TEXTS, "%", "a,b", "1e3", "<from /x>", "a\nb", "\\", "[x]", "? x", "@x", "`x`"])
def test_yaml_keeps_every_text_a_text(value: str) -> None:
    tree, problems = parse(dump({"a": value, "b": [value], "c": [{"d": value}], "e": {value or "k": 1}}).encode(), "x")
    assert not problems
    assert tree is not None
    assert tree.plain() == {"a": value, "b": [value], "c": [{"d": value}], "e": {value or "k": 1}}


def test_a_long_word_without_a_secret_costs_no_time_to_look_through() -> None:
    """A pattern that tries every beginning of a name took minutes for 100 KB, in which the daemon looked at nothing."""
    long = "x" * 2_000_000
    assert Veil(()).text(long + " HF_TOKEN=planted") == f"{long} HF_TOKEN=<redacted>"


def test_what_a_rule_quotes_fits_into_a_line() -> None:
    """What is in backticks stays whole, to be pasted: 80 columns less the label."""
    quoted = [text for rule in rules("vllm") for text in rule.sentence.split("`")[1::2]]
    assert quoted
    assert max(map(len, quoted)) <= 80 - 13 - 2


def test_a_default_of_nothing_is_not_said() -> None:
    (found,) = compare(group(rank(0, "--reasoning-parser deepseek_v4")), group(rank(0)))
    assert str(found.why) == "reasoning then comes as part of the answer (second field report)"
    (found,) = compare(group(rank(0)), group(rank(0, "--reasoning-parser deepseek_v4")))
    assert "without it" not in str(found.why)
