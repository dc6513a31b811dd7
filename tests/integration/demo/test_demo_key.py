"""An engine that wants a key, with the whole daemon: started with it, warmed up, asked, compared; and one that is open."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparkd.demo import stand as stands
from sparkd.demo.stand import Stand, stand

pytestmark = pytest.mark.slow

KEY = "sk-planted-0123456789"
HERE = Path(__file__).parent


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch, host: str, secrets: dict[str, str]) -> Iterator[Stand]:
    """A demo whose engine listens there, with these secrets, once it serves."""
    monkeypatch.setenv("SPARKD_TEST_DEPLOYMENT", json.dumps({"host": host, "secrets": secrets}))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    spawn = Stand._spawn

    def of_ours(self: Stand, module: str, *words: str, log: Path) -> Any:
        return spawn(self, "changed_head" if module == "sparkd.demo.head" else module, *words, log=log)

    monkeypatch.setattr(stands.Stand, "_spawn", of_ours)
    with stand() as made:
        made.api.post("/api/v1/deployments/demo/start", {})
        made.until("it serves", lambda: one(made)["serving"], 40.0)
        yield made


def one(made: Stand) -> dict[str, Any]:
    return dict(made.api.get("/api/v1/status")["deployments"][0])


def models(made: Stand, key: str | None) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{made.layout.api_port}/v1/models")
    if key is not None:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        as_vllm = refused.read() == b'{"error":"Unauthorized"}'
        return refused.code if as_vllm else 0


def open_endpoint(made: Stand) -> list[dict[str, Any]]:
    found = made.api.post("/api/v1/deployments/demo/checks", {})["checks"]
    return [row for row in found if row["code"] == "open-endpoint" and row["node"] == "spark1"]


def test_an_engine_with_a_key_is_warmed_up_asked_and_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "api_key").write_text(f"{KEY}\n")
    with served(monkeypatch, "0.0.0.0", {"VLLM_API_KEY": str(tmp_path / "api_key")}) as made:
        assert (models(made, None), models(made, "sk-other"), models(made, KEY)) == (401, 401, 200)
        made.until("a canary was sent and answered", lambda: canaries(made), 30.0)
        assert one(made)["canary"]["ok"]
        assert one(made)["serving"]
        [row] = open_endpoint(made)
        assert (row["status"], row["text"]) == ("ok", "")
        kept = made.api.post("/api/v1/deployments/demo/known-good", {"note": "with a key"})
        record = made.api.get(f"/api/v1/deployments/demo/known-good/{one(made)['generation']}")["text"]
        assert kept
        assert "max_model_len" in record.replace("-", "_"), "the page of its models was read"
        findings = made.api.get("/api/v1/deployments/demo/drift")["findings"]
        assert [each for each in findings if each["severity"] != "benign" and each["kind"] != "host"] == []
        shown = [made.layout.log.read_text(), record, json.dumps(made.api.get("/api/v1/history"))]
        assert not any(KEY in text for text in (*shown, json.dumps(made.api.get("/api/v1/status"))))


def canaries(made: Stand) -> bool:
    page = urllib.request.urlopen(f"http://{made.layout.page}/metrics", timeout=10).read().decode()
    counts = [line.split()[-1] for line in page.splitlines() if line.startswith("sparkd_canary_seconds_count")]
    return any(float(count) >= 3 for count in counts)


def test_an_engine_that_anybody_may_use_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, "0.0.0.0", {}) as made:
        [row] = open_endpoint(made)
        port = made.layout.api_port
        assert (row["status"], row["severity"], row["rank"]) == ("warn", "warn", 0)
        assert f"the API on 0.0.0.0:{port} of spark1 answers without a key" in row["text"]
        made.until("its status counts it", lambda: one(made)["checks"]["warn"] >= 1, 30.0)
