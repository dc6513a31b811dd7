"""Secret values in every form in which an engine may write them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from sparkd.model.config import Deployment
from sparkd.redact import Redactor


def redactor(folder: Path, value: str) -> Redactor:
    (folder / "secret").write_text(value + "\n")
    return Redactor.of(Deployment(name="ds4", engine="vllm", nodes=("spark1",), secrets={"X": str(folder / "secret")}))


@pytest.mark.parametrize("value", ["hf_abcdefgh", "pa\"ss\\wo'rd/with+odd=parts&more", "pässwörd-ñ", "trailing-space "])
def test_no_spelling_of_a_secret_is_shown(value: str, tmp_path: Path) -> None:
    hide = redactor(tmp_path, value)
    kept = value.strip()
    for spelt in (kept, json.dumps({"token": kept}), repr({"token": kept}), f"https://x/?token={quote(kept, safe='')}"):
        shown = hide(f"before {spelt} after")
        assert "<redacted>" in shown
        assert kept not in shown
        assert shown.startswith("before ")
        assert shown.endswith(" after")
    assert kept not in json.dumps(hide.tree({"Env": [f"HF_TOKEN={kept}"], "Cmd": ["--key", kept]}), ensure_ascii=False)


def test_a_secret_of_several_lines_is_hidden_line_by_line(tmp_path: Path) -> None:
    """A log comes line by line."""
    hide = redactor(tmp_path, "-----BEGIN KEY-----\nc2VjcmV0IG9uZQ==\nc2VjcmV0IHR3bw==\n-----END KEY-----")
    assert hide("read c2VjcmV0IHR3bw== from it") == "read <redacted> from it"


def test_a_secret_that_cannot_be_read_hides_nothing(tmp_path: Path) -> None:
    deployment = Deployment(name="ds4", engine="vllm", nodes=("spark1",), secrets={"X": str(tmp_path / "none")})
    assert Redactor.of(deployment)("as it is") == "as it is"
