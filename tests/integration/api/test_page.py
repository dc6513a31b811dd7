"""The status page in a real browser: its scripts run under its own policy, and it shows what the API says."""

from __future__ import annotations

import os

import pytest

from sparkd.journal import Event

from .api_world import Daemon, running
from .browser import CHROMIUM, browser

NO_BROWSER = CHROMIUM is None and os.environ.get("SPARKD_NO_SKIP") != "1"


@pytest.mark.skipif(NO_BROWSER, reason="chromium is not installed")
async def test_a_browser_shows_the_verdict_the_ranks_and_what_happened() -> None:
    sentence = "rank 0 is gone <b>& so on</b>"
    daemon = Daemon(events=[Event(id=7, at=1.8e9, kind="failed", deployment="qwen", generation=3, sentence=sentence)])
    async with running(daemon) as place, browser(f"http://127.0.0.1:{place.port}/") as page:
        text = await page.html(lambda text: "NOT serving" in text and "rank 0 is gone &lt;" in text)
    assert "2 are NOT serving: qwen, broken. ds4-flash is serving, for 10 min now.</h1>" in text
    assert "desk: 1 of 2 serving</title>" in text
    assert "broken.yaml:3: port: no number" in text
    assert "90.0 GiB available of 128.0 GiB" in text
    assert "rank 0 is gone &lt;b&gt;&amp; so on&lt;/b&gt;" in text
    assert not page.said
