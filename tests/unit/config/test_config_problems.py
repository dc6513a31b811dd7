"""Broken files give exactly the problems of the case files, and nothing but problems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config_cases import CLUSTER, DEPLOYMENT, Case, cases, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkd import settings as configuration
from sparkd.base.errors import ConfigError
from sparkd.fleet import load_config
from sparkd.settings.reader import MAX_BYTES, parse


def problems(folder: Path, file: Path) -> tuple[str, ...]:
    """The problems of one file, without its name; any of another file fails the test."""
    found = [str(problem) for problem in configuration.check(folder)]
    assert all(text.startswith(str(file)) for text in found), found
    return tuple(text.removeprefix(str(file)) for text in found)


@pytest.mark.parametrize("case", cases("broken_deployments.txt"), ids=lambda case: case.name)
def test_broken_deployment(tmp_path: Path, case: Case) -> None:
    write(tmp_path, d=case.text)
    file = tmp_path / "deployments" / "d.yaml"
    assert problems(tmp_path, file) == case.problems
    loaded = configuration.load(tmp_path)
    assert loaded.deployments == ()
    assert [broken.file for broken in loaded.broken] == [str(file)]
    assert loaded.broken[0].problems == tuple(f"{file}{text}" for text in case.problems)


@pytest.mark.parametrize("case", cases("broken_clusters.txt"), ids=lambda case: case.name)
def test_broken_cluster(tmp_path: Path, case: Case) -> None:
    write(tmp_path, case.text)
    assert problems(tmp_path, tmp_path / "sparkd.yaml") == case.problems
    with pytest.raises(ConfigError):
        configuration.load(tmp_path)


def test_the_good_files_of_the_cases_are_good(tmp_path: Path) -> None:
    assert configuration.check(write(tmp_path, d=DEPLOYMENT)) == ()


def test_what_only_looks_like_a_secret_is_taken(tmp_path: Path) -> None:
    more = """\
env: {HF_HOME: /hf, AWS_REGION: eu, GOOGLE_APPLICATION_CREDENTIALS: /run/gcp.json, PROXY: "http://me@proxy:3128", NCCL_IB_PKEY: "1"}
secrets: {HF_TOKEN: {file: /etc/sparkd/hf_token}, ODD: {file: /etc/sparkd/odd}}
profiles: {x: {args: {tokenizer: /t, allow-credentials: true, max-num-batched-tokens: 8,
  kv-transfer-config: {kv_connector: K, token_type: 1}, hf-overrides: {eos_token: </s>}, hf-token: true, seed: null}}}
warmup: {prompt: "Say HF_TOKEN=abc"}
"""
    assert configuration.check(write(tmp_path, d=DEPLOYMENT + more)) == ()


def test_no_problem_repeats_the_secret_that_it_is_about(tmp_path: Path) -> None:
    """Problems are shown, logged and journalled."""
    for number, case in enumerate(cases("broken_deployments.txt")):
        if "planted" in case.text:
            folder = tmp_path / str(number)
            folder.mkdir()
            write(folder, d=case.text)
            assert not [one for one in map(str, configuration.check(folder)) if "planted" in one]


def test_all_problems_of_all_files_at_once(tmp_path: Path) -> None:
    write(tmp_path, CLUSTER + "polcy: {}\n", one=DEPLOYMENT + "prot: 1\n", two="name: e\nnodes: [a\n")
    with pytest.raises(ConfigError) as caught:
        configuration.load(tmp_path)
    where = [(Path(problem.file).name, problem.line) for problem in caught.value.problems]
    assert where == [("sparkd.yaml", 6), ("one.yaml", 7), ("two.yaml", 2)]


def test_deployments_are_checked_against_a_cluster_with_problems(tmp_path: Path) -> None:
    write(tmp_path, CLUSTER + "polcy: {}\n", d=DEPLOYMENT.replace("[a, b]", "[a, x]"))
    assert [problem.path for problem in configuration.check(tmp_path)] == ["polcy", "nodes[1]"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name: \xff\n", ":1: byte 0xff is not UTF-8 (save the file as UTF-8)"),
        ("name: d\n".encode("utf-16"), ": the file is UTF-16 (save it as UTF-8)"),
        (b"name: d\nport: \x07\n", ":2: the invisible character 0x07 is not allowed (remove it)"),
        (b"#" * (MAX_BYTES + 1), ": the file is larger than 1024 KiB (is it a configuration file?)"),
    ],
    ids=["latin-1", "utf-16", "bell", "too large"],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, said: str) -> None:
    write(tmp_path, d="")
    file = tmp_path / "deployments" / "d.yaml"
    file.write_bytes(data)
    assert problems(tmp_path, file) == (said,)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    write(tmp_path, d="")
    text = ("\ufeff" + DEPLOYMENT).replace("\n", "\r\n")
    (tmp_path / "deployments" / "d.yaml").write_bytes(text.encode())
    assert configuration.load(tmp_path).deployments[0].nodes == ("a", "b")


def test_files_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, d="")
    (tmp_path / "deployments" / "d.yaml").unlink()
    (tmp_path / "deployments" / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "deployments" / "pipe.yaml")
    (tmp_path / "deployments" / "gone.yaml").symlink_to("nowhere")
    found = {Path(problem.file).name: problem.text for problem in configuration.check(tmp_path)}
    none, gone = "not a regular file", "there is no such file"
    assert found == {"folder.yaml": none, "pipe.yaml": none, "gone.yaml": gone}


@pytest.mark.parametrize("name", [b"\xff.yaml", b"a\nb\x1b[31m.yaml"], ids=ascii)
def test_whatever_bytes_the_name_of_a_file_has_it_is_told_in_characters(tmp_path: Path, name: bytes) -> None:
    """A broken deployment is known by its file: a name that was no UTF-8 cost all of /metrics, an escape steers terminals."""
    write(tmp_path, d=DEPLOYMENT)
    Path(os.fsdecode(os.path.join(os.fsencode(tmp_path / "deployments"), name))).write_text("name: E\x1b[2J\n")
    loaded = configuration.load(tmp_path)
    told = [loaded.broken[0].name, loaded.broken[0].file, *loaded.broken[0].problems, *loaded.files]
    assert all(text.isprintable() for text in told), told
    assert len(loaded.deployments) == 1


@pytest.mark.parametrize(
    "odd", ["a" * 5000, "d/" * 3000, "loop/sparkd.yaml", "loop"], ids=["long", "deep", "in", "loop"]
)
def test_a_path_that_cannot_even_be_looked_at_is_a_problem(tmp_path: Path, odd: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read" in str(configuration.check(tmp_path / odd)[0])
    assert load_config.signature(tmp_path / odd) == frozenset()


def test_no_sparkd_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        configuration.load(tmp_path)


def test_a_chain_of_aliases_is_bounded_in_values_and_in_depth() -> None:
    wide = "".join(f"{key}: &{key} [{', '.join([f'*{before}'] * 10)}]\n" for before, key in ("ab", "bc", "cd", "de"))
    item, found = parse(f"a: &a [{', '.join('x' * 10)}]\n{wide}".encode(), "f")
    assert (item, found[0].text) == (None, "more than 20000 values in one file")
    deep = "".join(f"k{i}: &k{i} {'[' * 20}*k{i - 1}{']' * 20}\n" for i in range(1, 2000))
    item, found = parse(f"k0: &k0 x\n{deep}".encode(), "f")
    assert (item, found[0].line, found[0].text) == (None, 3, "nested more than 32 deep")


FRAGMENTS = st.text(alphabet="ab:&*?-[]{}'\"|>!%@`#,\n\t \\0~1.<=é", max_size=60)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.binary(max_size=80), FRAGMENTS.map(str.encode)))
def test_reading_never_raises(data: bytes) -> None:
    item, found = parse(data, "f")
    assert item is not None or found


KEYS = st.sampled_from(
    ["name", "nodes", "args", "env", "container", "mounts", "profiles", "policy", "secrets", "port", "x"]
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 99), st.sampled_from(["a", "~/x", "$HOME", "/a", "0.90", "local"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cluster=st.dictionaries(KEYS, VALUES, max_size=5), deployment=st.dictionaries(KEYS, VALUES, max_size=8))
def test_no_values_make_checking_raise(tmp_path: Path, cluster: object, deployment: object) -> None:
    """JSON is YAML: any tree of values at any place gives problems, never a traceback."""
    import json

    folder = tmp_path / "deployments"
    folder.mkdir(exist_ok=True)
    (tmp_path / "sparkd.yaml").write_text(json.dumps(cluster))
    (folder / "d.yaml").write_text(json.dumps(deployment))
    assert configuration.check(tmp_path)
