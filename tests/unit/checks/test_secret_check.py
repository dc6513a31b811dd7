"""The check `secret`: a start is held while a secret's file holds no value, and goes on when it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from check_world import said, scene

from sparkd.base.redact import Redactor
from sparkd.base.secret_files import unread
from sparkd.checks import secret
from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Scene, Trouble
from sparkd.model.check import Level, Status


def looked_at(file: Path) -> Scene:
    at = scene(secrets={"HF_TOKEN": str(file)})
    return replace(at, secrets=unread(at.deployment.secrets), veil=Redactor.of(at.deployment))


def test_it_names_the_file_and_passes_once_that_is_right(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff")
    text = f"secret HF_TOKEN cannot be read from {file}: byte 1 of it is no UTF-8"
    assert said(secret.CHECK, looked_at(file)) == [(None, "fail", text)]
    (found,) = [one for one in run.evaluate([secret.CHECK], looked_at(file), {}) if one.status is Status.FAIL]
    assert found.fact == "check::secret"
    assert str(file) in found.fix
    file.write_text("hf_planted0123")
    assert said(secret.CHECK, looked_at(file)) == []


def test_what_a_check_has_seen_is_told_without_secrets(tmp_path: Path) -> None:
    """Evidence is word for word: of any check, of lines that nobody expects to hold one."""
    file = tmp_path / "token"
    file.write_text("hf_planted0123")
    at = looked_at(file)
    trouble = Trouble(None, "odd: hf_planted0123", "", ("Environment=DB_PASSWD=abc", "see redis://:abc@h"))
    check = replace(secret.CHECK, evaluate=lambda _: iter((trouble,)))
    (found,) = [one for one in run.evaluate([check], at, {check.code: Level.FAIL}) if one.text]
    assert found.text == "odd: <redacted>"
    assert found.evidence == ("Environment=DB_PASSWD=<redacted>", "see redis://:<redacted>@h")
