"""The status page in a real browser: its scripts run under its own policy, and it shows what the API says."""

from __future__ import annotations

import re
import shutil

import anyio
import pytest

from sparkd.journal import Event

from .api_world import Daemon, running

CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_a_browser_shows_the_verdict_the_ranks_and_what_happened() -> None:
    sentence = "rank 0 is gone <b>& so on</b>"
    daemon = Daemon(events=[Event(id=7, at=1.8e9, kind="failed", deployment="qwen", generation=3, sentence=sentence)])
    argv = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    async with running(daemon) as place:
        for patience_ms in (3_000, 9_000, 27_000):  # it dumps what is there by then; a busy machine is slow to load
            url = f"http://127.0.0.1:{place.port}/"
            with anyio.fail_after(60):
                ran = await anyio.run_process([str(CHROMIUM), *argv, f"--timeout={patience_ms}", url], check=False)
            text = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", ran.stdout.decode(), flags=re.DOTALL)
            if "NOT serving" in text and "rank 0 is gone &lt;" in text:
                break
    assert "2 are NOT serving: qwen, broken. ds4-flash is serving, for 10 min now.</h1>" in text
    assert "desk: 1 of 2 serving</title>" in text
    assert "broken.yaml:3: port: no number" in text
    assert "90.0 GiB available of 128.0 GiB" in text
    assert "rank 0 is gone &lt;b&gt;&amp; so on&lt;/b&gt;" in text
    assert "Content Security Policy" not in ran.stderr.decode()
