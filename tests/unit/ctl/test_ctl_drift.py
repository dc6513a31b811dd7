"""`ctl drift`, `bless` and `known-good`: what is on the screen, the exit codes, and a file that is put back."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ctl_daemon import Json, check_golden, daemon, error, on_terminal, sparkd
from ctl_scenes import serving

BASE = "/api/v1/deployments/ds4-flash"
FORK = {
    "severity": "breaks",
    "kind": "env",
    "rank": None,
    "node": None,
    "name": "VLLM_WORKER_MULTIPROC_METHOD",
    "known": None,
    "live": "fork",
    "why": "forked workers lose the shared ring buffer (first field report; vllm#24580)",
    "fix": "unset VLLM_WORKER_MULTIPROC_METHOD",
}
SEQS = {
    **FORK,
    "severity": "slows",
    "kind": "flag",
    "rank": 1,
    "node": "spark2",
    "name": "--max-num-seqs",
    "known": 4,
    "live": 8,
    "why": "decides how many requests run at once",
    "fix": "give `--max-num-seqs 4` again",
}
HOST = {**FORK, "severity": "benign", "kind": "flag", "name": "--host", "live": "0.0.0.0", "why": None, "fix": None}
RECORDS = [
    {"deployment": "ds4-flash", "generation": 12, "recorded": "2026-11-26T03:20:00Z", "note": "44 tok/s", "pinned": True,
     "reference": True, "measured": {"decode_tokens_per_second": {"warm": 44.5, "cold": 32.0}, "kv_cache_tokens": 360858}},
    {"deployment": "ds4-flash", "generation": 14, "recorded": "2026-11-27T03:20:00Z", "note": None, "pinned": False,
     "reference": False, "measured": {}},
]  # fmt: skip


def drift(*findings: Json, **more: object) -> Json:
    about = {"schema": 1, "deployment": "ds4-flash", "at": "2026-11-27T07:01:02Z", "seconds": 0.4}
    return {**about, "against": "known-good 12", "live": "live", "findings": list(findings), **more}


def test_the_diff_on_a_terminal() -> None:
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = drift(
            FORK,
            SEQS,
            HOST,
            unread={"spark3": "no route to host"},
            absent=[1],
            not_compared=["docker of rank 1: it is mute"],
        )
        session = on_terminal(server.socket_path, "ctl", "drift", env={"NO_COLOR": "1"})
        coloured = on_terminal(server.socket_path, "ctl", "drift").text
    assert session.code == 1
    check_golden("drift", session.text.replace("\r\n", "\n"))
    assert "\x1b[1;31mbreaks" in coloured
    assert "\x1b[1;32m  + fork" in coloured


def test_a_container_that_only_sleeps_is_said_with_what_to_do() -> None:
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = drift(asleep=[0])
        done = sparkd(server.socket_path, "ctl", "drift")
    assert done.returncode == 0
    words = " ".join(done.stdout.split())
    assert "Rank 0 has a container without an engine in it" in words
    assert "`sparkd compare GOOD.yaml SCRIPT`" in words


def test_what_does_not_run_is_said_as_a_sentence() -> None:
    with daemon(serving()) as server:
        for about, said in (
            ({"absent": [0, 1]}, "Ranks 0 and 1 do not run: the next start was compared."),
            ({"ended": [1]}, "Rank 1 has ended."),
            ({"ended": [0, 1]}, "Ranks 0 and 1 have ended."),
        ):
            server.answers[f"{BASE}/drift"] = drift(**about)
            assert sparkd(server.socket_path, "ctl", "drift").stdout.splitlines()[-1] == said


def test_what_has_one_cause_and_one_remedy_is_told_once() -> None:
    one = {**SEQS, "kind": "rank", "why": "ranks disagree", "fix": "give rank 0 and rank 1 the same"}
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = drift(one, FORK, {**one, "name": "--block-size"}, {**one, "rank": 2})
        shown = sparkd(server.socket_path, "ctl", "drift").stdout
    assert shown.count("ranks disagree") == 2, "of rank 1, and of rank 2"
    assert shown.index("--max-num-seqs") < shown.index("--block-size") < shown.index("ranks disagree")
    assert "4 differences" in shown


@pytest.mark.parametrize(
    ("against", "more", "commands"),
    [
        (None, {"findings": [{**FORK, "kind": "host", "name": "kernel"}]}, ["bless ds4-flash"]),
        (None, {}, ["known-good rollback ds4-flash", "bless ds4-flash"]),
        (None, {"absent": [0, 1]}, ["known-good rollback ds4-flash"]),
        ("12", {}, ["known-good rollback ds4-flash --generation 12", "bless ds4-flash"]),
        ("wanted", {}, ["restart ds4-flash"]),
    ],
)
def test_what_differs_ends_with_what_to_type_next(against: str | None, more: Json, commands: list[str]) -> None:
    words = ["ctl", "drift"] + (["--against", against] if against else [])
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = drift(FORK) | more
        shown = sparkd(server.socket_path, *words).stdout
        server.answers[f"{BASE}/drift"] = drift(HOST)
        assert "sparkd ctl" not in sparkd(server.socket_path, *words).stdout, "nothing to undo"
    typed = [line.strip().partition("  ")[0] for line in shown.splitlines() if line.startswith("  sparkd ctl ")]
    assert typed == [f"sparkd ctl {one}" for one in commands]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (drift(), 0),
        (drift(HOST), 0),
        (drift(HOST, SEQS), 5),
        (drift(FORK), 5),
        (drift(unread={"spark2": "mute"}), 1),
        (drift(FORK, unread={"spark2": "mute"}), 1),
    ],
)
def test_exit_codes(answer: Json, code: int) -> None:
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = answer
        done = sparkd(server.socket_path, "ctl", "drift", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (code, answer)


def test_the_weights_are_hashed_before_the_comparison() -> None:
    done = {"done_bytes": 100, "total_bytes": 100, "unread": []}
    half = {**done, "done_bytes": 50}
    hashes = {
        "schema": 1,
        "deployment": "ds4-flash",
        "complete": True,
        "nodes": {"spark1": done, "spark2": done},
        "unread": {},
    }
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = drift(SEQS)
        server.answers[f"{BASE}/hashes"] = hashes
        assert sparkd(server.socket_path, "ctl", "drift", "--hash").returncode == 5
        assert [path.rpartition("/")[2] for path in server.asked[-2:]] == ["hashes", "drift"]
        broken = {**done, "unread": ["model-2.safetensors"]}
        server.answers[f"{BASE}/hashes"] = {**hashes, "nodes": {"spark1": half, "spark2": broken}}
        failed = sparkd(server.socket_path, "ctl", "drift", "--hash")
    assert (failed.returncode, "model-2.safetensors on spark2 could not be read" in failed.stderr) == (1, True)


def test_nothing_recorded_is_1_and_a_generation_that_is_not_there_2() -> None:
    with daemon(serving()) as server:
        server.answers[f"{BASE}/drift"] = 409, error("conflict", "nothing is recorded yet", "sparkd ctl bless")
        assert sparkd(server.socket_path, "ctl", "drift").returncode == 1
        server.answers[f"{BASE}/drift"] = 404, error("not_found", "nothing of generation 3", "recorded: 12")
        assert sparkd(server.socket_path, "ctl", "drift", "--against", "3").returncode == 2
        assert server.asked[-1].endswith("/drift?against=3")


def test_what_is_recorded() -> None:
    with daemon(serving()) as server:
        path = f"{BASE}/known-good"
        server.answers[path] = {"schema": 1, "deployment": "ds4-flash", "known_good": RECORDS}
        wide = sparkd(server.socket_path, "ctl", "known-good", "list", env={"COLUMNS": "140"}).stdout
        server.answers[f"{path}/12"] = {"schema": 1, **RECORDS[0], "text": "schema: 1\nkind: known-good\n"}
        shown = sparkd(server.socket_path, "ctl", "known-good", "show")
        server.answers[f"{path}/12/diff/14"] = drift(SEQS)
        apart = sparkd(server.socket_path, "ctl", "known-good", "diff", "12", "14")
    check_golden("known_good", wide)
    assert (shown.returncode, shown.stdout) == (0, "schema: 1\nkind: known-good\n")
    assert (apart.returncode, "  - 4\n  + 8\n" in apart.stdout) == (5, True)


def test_a_blessing_says_which_and_why() -> None:
    with daemon(serving()) as server:
        server.answers[f"{BASE}/known-good"] = {"schema": 1, **RECORDS[0]}
        done = sparkd(server.socket_path, "ctl", "bless", "--note", "44 tok/s")
        assert server.posted == [(f"{BASE}/known-good", {"generation": None, "note": "44 tok/s"})]
        sparkd(server.socket_path, "ctl", "bless", "--generation", "12")
        assert server.posted[-1][1] == {"generation": 12, "note": ""}
    assert (done.returncode, "Generation 12" in done.stdout) == (0, True)


def test_how_the_image_was_built_on_each_node() -> None:
    """The first report nearly rebuilt for commits that its build had."""
    one = {"vllm_commit": "48cebd4ad", "vllm_prs": "41834"}
    built: Json = {
        "schema": 1,
        "deployment": "ds4-flash",
        "image": "dgx-vllm:nightly",
        "path": "/workspace/build-metadata.yaml",
    }
    with daemon(serving()) as server:
        server.answers[f"{BASE}/build"] = {
            **built,
            "nodes": {"spark1": one, "spark2": one},
            "unread": {},
            "findings": [],
        }
        same = sparkd(server.socket_path, "ctl", "drift", "--build")
        other = {**one, "vllm_commit": "0badcafe"}
        found = {**built, "nodes": {"spark1": one, "spark2": other}, "findings": [{**SEQS, "kind": "rank"}]}
        server.answers[f"{BASE}/build"] = {**found, "unread": {}}
        apart = sparkd(server.socket_path, "ctl", "drift", "--build")
        server.answers[f"{BASE}/build"] = {
            **built,
            "nodes": {"spark1": None},
            "unread": {"spark2": "mute"},
            "findings": [],
        }
        unread = sparkd(server.socket_path, "ctl", "drift", "--build")
    assert (same.returncode, apart.returncode, unread.returncode) == (0, 5, 1)
    assert apart.stdout.splitlines() == [
        "dgx-vllm:nightly, by its own /workspace/build-metadata.yaml:",
        "  KEY          spark1     spark2",
        "  vllm_commit  48cebd4ad  0badcafe",
        "  vllm_prs     41834      41834",
    ]
    assert "says nothing" in unread.stdout
    assert "mute" in unread.stdout


# ------------------------------------------------------------------------------------------------------------ rollback


def recorded(file: Path, text: str | None) -> dict[str, Json | tuple[int, Json]]:
    one = {"schema": 1, **RECORDS[0], "text": "", "deployment_file": text, "file": str(file)}
    listed = {"schema": 1, "deployment": "ds4-flash", "known_good": RECORDS}
    return {f"{BASE}/known-good": listed, f"{BASE}/known-good/12": one}


def test_a_rollback_shows_the_difference_asks_and_keeps_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ds4-flash.yaml"
    file.write_text("name: x\nargs: {max-num-seqs: 8}\n")
    file.chmod(0o640)
    with daemon(serving()) as server:
        server.answers = recorded(file, "name: x\nargs: {max-num-seqs: 4}\n")
        alone = sparkd(server.socket_path, "ctl", "known-good", "rollback")
        assert (alone.returncode, file.read_text()) == (2, "name: x\nargs: {max-num-seqs: 8}\n")
        no = on_terminal(server.socket_path, "ctl", "known-good", "rollback", typed="n\n")
        assert (no.code, file.read_text()) == (2, "name: x\nargs: {max-num-seqs: 8}\n")
        yes = on_terminal(server.socket_path, "ctl", "known-good", "rollback", typed="y\n", env={"NO_COLOR": "1"})
    assert (yes.code, file.read_text()) == (0, "name: x\nargs: {max-num-seqs: 4}\n")
    assert "-args: {max-num-seqs: 8}" in yes.text
    assert "+args: {max-num-seqs: 4}" in yes.text
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    (backup,) = [path for path in tmp_path.iterdir() if path != file]
    assert (backup.suffix, backup.read_text()) == (".bak", "name: x\nargs: {max-num-seqs: 8}\n")


def test_a_rollback_hides_no_line_of_what_it_would_write(tmp_path: Path) -> None:
    """It is agreed to by whoever may write there, often root, on the word of a daemon that is not."""
    with daemon(serving()) as server:
        server.answers = recorded(tmp_path / "ds4-flash.yaml", "name: x\n# \x1b[8mnot to be seen\r\n")
        asked = on_terminal(server.socket_path, "ctl", "known-good", "rollback", typed="n\n")
    assert "not to be seen" in asked.text
    assert "\x1b[8m" not in asked.text


def test_a_rollback_shows_no_secret_and_tells_what_may_be_pasted(tmp_path: Path) -> None:
    file = tmp_path / "ds4-flash.yaml"
    file.write_text(
        "env: {HF_TOKEN: hf-planted, A: b}\nargs:\n  api-key: 'sk-planted x'\n  max-num-batched-tokens: 8192\n"
    )
    with daemon(serving()) as server:
        server.answers = recorded(file, "name: x\n")
        asked = sparkd(server.socket_path, "ctl", "known-good", "rollback")
    assert "planted" not in asked.stderr
    assert "-env: {HF_TOKEN: <redacted>, A: b}" in asked.stderr
    assert "max-num-batched-tokens: 8192" in asked.stderr


def test_a_rollback_goes_through_a_link_and_keeps_every_file_before(tmp_path: Path) -> None:
    repository = tmp_path / "git" / "x.yaml"
    repository.parent.mkdir()
    repository.write_bytes(b"name: x\r\n")
    file = tmp_path / "ds4-flash.yaml"
    file.symlink_to(repository)
    with daemon(serving()) as server:
        for text in ("name: x\n", "name: y\n", "name: z\n"):
            server.answers = recorded(file, text)
            assert sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes").returncode == 0
        same = sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes", "--json")
    assert (file.is_symlink(), repository.read_text()) == (True, "name: z\n")
    kept = {path.read_bytes() for path in repository.parent.iterdir() if path != repository}
    assert kept == {b"name: x\r\n", b"name: x\n", b"name: y\n"}
    assert json.loads(same.stdout)["backup"] is None


def test_a_rollback_where_nothing_is_to_be_done_or_nothing_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "ds4-flash.yaml"
    file.write_text("name: x\n")
    with daemon(serving()) as server:
        server.answers = recorded(file, "name: x\n")
        same = sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes")
        server.answers = recorded(file, None)
        lost = sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes")
    assert (same.returncode, lost.returncode, list(tmp_path.iterdir())) == (0, 2, [file])
    assert "was not kept" in lost.stderr


def test_a_rollback_of_a_file_that_is_gone_writes_it_anew(tmp_path: Path) -> None:
    file = tmp_path / "ds4-flash.yaml"
    with daemon(serving()) as server:
        server.answers = recorded(file, "name: x\n")
        done = sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes", "--json")
    assert (done.returncode, json.loads(done.stdout)["backup"], file.read_text()) == (0, None, "name: x\n")


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "ds4-flash.yaml"
    with daemon(serving()) as server:
        server.answers = recorded(file, "name: x\n")
        done = sparkd(server.socket_path, "ctl", "known-good", "rollback", "--yes")
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)


def test_force_is_passed_on() -> None:
    with daemon(serving()) as server:
        sparkd(server.socket_path, "ctl", "start", "--force")
        sparkd(server.socket_path, "ctl", "start")
    assert [body.get("force") for _, body in server.posted] == [True, None]
