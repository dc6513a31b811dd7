"""`sparkd compare A B`: exit codes, JSON, what is on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sparkd.cli.compare import KIND_NAMES
from sparkd.cli.main import cli
from sparkd.ctl.drift_values import Drift
from sparkd.ctl.findings import screen
from sparkd.ctl.reading import read
from sparkd.ctl.text import Terminal
from sparkd.drift import compare
from sparkd.importers.read import KINDS, read_side

REPORTS = Path(__file__).parent / "reports"
HEAD, WORKER = REPORTS / "ds4" / "vllm-head.sh", REPORTS / "ds4" / "vllm-worker.sh"
FIRST, LAST = REPORTS / "devstral-first.sh", REPORTS / "devstral.sh"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, words)])


def test_equal_sides_exit_0() -> None:
    result = run(HEAD, WORKER)
    assert result.exit_code == 0
    assert "No difference in what was compared." in result.stdout


def test_differences_exit_5_and_are_findings_of_the_interface() -> None:
    result = run(LAST, FIRST, "--json")
    assert result.exit_code == 5
    answer = json.loads(result.stdout)
    assert (answer["schema"], answer["against"], answer["not_compared"]) == (1, str(LAST), [])
    assert list(answer["findings"][0]) == ["severity", "kind", "rank", "node", "name", "known", "live", "why", "fix"]
    assert [(one["severity"], one["name"]) for one in answer["findings"]] == [
        ("breaks", "--enforce-eager"),
        ("slows", "--gpu-memory-utilization"),
        ("unknown", "--max-model-len"),
    ]


def test_a_secret_that_is_set_elsewhere_is_named_by_its_variable(tmp_path: Path) -> None:
    """`-e HF_TOKEN=$HF_TOKEN`: with that word taken for the secret, the heading hid what differs."""
    (tmp_path / "a.sh").write_text("docker run -e HF_TOKEN=$HF_TOKEN -e HF_KEY=s3cr3t-one v:1 vllm serve /m")
    (tmp_path / "b.sh").write_text("docker run v:1 vllm serve /m")
    said = run(tmp_path / "a.sh", tmp_path / "b.sh").stdout
    assert "unknown HF_TOKEN (env, rank 0)" in said
    assert "$HF_TOKEN is not set in this file" in said
    assert "s3cr3t" not in said


def test_benign_differences_exit_0(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("vllm serve /m")
    (tmp_path / "b.sh").write_text("vllm serve /m -tp 1")
    result = run(tmp_path / "a.sh", tmp_path / "b.sh")
    assert result.exit_code == 0
    assert "1 difference: 1 benign." in result.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((HEAD, "no-such-file"), "no-such-file cannot be read"),
        ((HEAD, REPORTS / "vllm-ds4-head.service"), "starts no engine"),
        ((HEAD, WORKER, "--rank", "7"), "rank 7 is not in both"),
        ((HEAD, WORKER, "--kind", "script", "--kind", "unit", "--kind", "unit"), "--kind counts for both"),
        ((HEAD, WORKER, "--set", "HOME"), "write NAME=VALUE"),
    ],
)
def test_what_cannot_be_compared_exits_2(words: tuple[object, ...], text: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


def test_sides_without_a_common_rank_exit_2(tmp_path: Path) -> None:
    for name, ranks in (("a", (0, 1)), ("b", (2, 3))):
        lines = [f"ssh n{rank} vllm serve /m --nnodes 4 --node-rank {rank}\n" for rank in ranks]
        (tmp_path / name).write_text("".join(lines))
    result = run(tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 2
    assert "no rank in common" in result.stderr


def test_an_error_is_json_where_json_was_asked_for() -> None:
    result = run(HEAD, "no-such-file", "--json")
    assert result.exit_code == 2
    assert set(json.loads(result.stdout)["error"]) == {"code", "text", "fix"}


def test_a_broken_deployment_file_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("name: x\nengine: vllm\nnodes: [spark1]\nimagee: y\n")
    result = run(tmp_path / "x.yaml", HEAD)
    assert result.exit_code == 2
    assert "imagee" in result.stderr


def test_variables_from_around_can_be_given() -> None:
    result = run(LAST, FIRST, "--set", "HOME=/home/milo", "--json")
    assert "$HOME" not in result.stdout


def test_the_screen_shows_both_lines_and_what_to_do() -> None:
    findings = [one.as_json() for one in compare(read_side(LAST), read_side(FIRST))]
    found = read(Drift, {"against": "a", "live": "b", "findings": findings, "not_compared": []})
    plain = "\n".join(screen(found, Terminal(100)))
    assert plain.startswith("--- a\n+++ b\n")
    assert "\x1b" not in plain
    assert "breaks  --enforce-eager (flag, rank 0)\n  - true\n  + nothing\n" in plain
    assert "fix        give `--enforce-eager` again" in plain
    assert "3 differences: 1 breaks, 1 slows and 1 unknown." in plain
    coloured = "\n".join(screen(found, Terminal(100, colour=True)))
    assert "\x1b[1;31mbreaks" in coloured


def test_secrets_are_on_no_screen(tmp_path: Path) -> None:
    secret = "hf_planted_0123456789"
    (tmp_path / "a.sh").write_text("vllm serve /m --max-num-batched-tokens 8192")
    (tmp_path / "b.sh").write_text(
        f'export HF_TOKEN={secret}\nX={secret}\n$RUN --api-key {secret}\neval "$(t {secret})"\n'
        f"vllm serve /m --api-key $X --max-num-batched-tokens 4096 --download-dir /d/{secret} $(cat {secret})\n"
    )
    for words in ((), ("--json",)):
        for one, other in (("a.sh", "b.sh"), ("b.sh", "a.sh")):
            result = run(tmp_path / one, tmp_path / other, *words)
            assert result.exit_code == 5
            assert secret not in result.output
            assert "8192" in result.output
            assert "--max-num-batched-tokens" in result.output
            assert "HF_TOKEN" in result.output


def test_secrets_are_in_no_refusal_and_in_no_address(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("$(get --api-key sk-planted https://u:planted@h/) serve /m\n")
    (tmp_path / "b.sh").write_text("export DB=postgres://u:planted@h/db\nvllm serve /m --max-num-batched-tokens 8192\n")
    (tmp_path / "c.sh").write_text("export DB=postgres://u:planted@other/db\nvllm serve /m\n")
    refused, apart = run(tmp_path / "a.sh", tmp_path / "b.sh"), run(tmp_path / "b.sh", tmp_path / "c.sh")
    assert (refused.exit_code, apart.exit_code) == (2, 5)
    assert "planted" not in refused.output + apart.output
    assert "postgres://u:<redacted>@other/db" in apart.output
    assert "8192" in apart.output


def test_what_would_not_be_seen_is_an_escape_and_the_fix_can_be_pasted(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("export X=$'a\\e[31m\\xa0\\u200b\\n\\'q\\\\' Y='a b'\nvllm serve /m\n")
    (tmp_path / "b.sh").write_text("export X=1 Y='a\xa0b'\nvllm serve /m\n")
    result = run(tmp_path / "a.sh", tmp_path / "b.sh")
    assert all(line.isprintable() for line in result.stdout.splitlines())
    assert "  - a\\x1b[31m\\xa0\\u200b\\n'q" in result.stdout
    assert "  + a\\xa0b" in result.stdout
    fix = next(line for line in result.stdout.splitlines() if "set X=" in line).partition("set ")[2]
    (tmp_path / "fixed.sh").write_text(f"export Y='a b'\nexport {fix}\nvllm serve /m\n")
    assert run(tmp_path / "a.sh", tmp_path / "fixed.sh").exit_code == 0


def test_the_kinds_of_the_command_are_those_of_the_readers() -> None:
    assert KIND_NAMES == KINDS


def test_notes_and_pictures_beside_the_scripts_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    for name, texts in (("good", (HEAD, WORKER)), ("now", (HEAD, WORKER))):
        (tmp_path / name).mkdir()
        for file in texts:
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "now" / "README.md").write_text("Start it with `bash vllm-head.sh`, see $(the wiki).\n")
    (tmp_path / "now" / "rack.png").write_bytes(b"\x89PNG\r\n\xff\xfe")
    result = run(tmp_path / "good", tmp_path / "now")
    assert (result.exit_code, "No difference in what was compared." in result.stdout) == (0, True)
    (tmp_path / "now" / "more.sh").write_bytes(b"vllm serve /m \xff")
    assert "more.sh is no text" in " ".join(run(tmp_path / "good", tmp_path / "now").stderr.split())


def test_a_worker_script_that_lacks_headless_is_found_beside_the_head(tmp_path: Path) -> None:
    (tmp_path / "worker.sh").write_text(WORKER.read_text().replace("--headless", ""))
    result = run(HEAD, tmp_path / "worker.sh")
    assert result.exit_code == 5
    assert "breaks  --headless (rank, rank 1)\n  why" in result.stdout
