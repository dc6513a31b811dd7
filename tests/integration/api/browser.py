"""A headless Chromium that shows one page, read through its own debugging protocol."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import anyio

CHROMIUM = shutil.which("chromium")
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")


@dataclass
class Page:
    """The page as it is now; `said` are its console messages and policy violations."""

    socket: aiohttp.ClientWebSocketResponse
    said: list[str] = field(default_factory=list)
    _asked: int = 0

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._asked += 1
        await self.socket.send_json({"id": self._asked, "method": method, "params": parameters})
        async for message in self.socket:
            answer = message.json()
            if answer.get("id") == self._asked:
                return dict(answer["result"])
            if answer.get("method") == "Log.entryAdded":
                self.said.append(answer["params"]["entry"]["text"])
        raise AssertionError("the browser went away")

    async def html(self, until: Callable[[str], bool], deadline_s: float = 60.0) -> str:
        """The document without scripts and styles, once `until` holds for it; as it is when time is up."""
        text = ""
        with anyio.move_on_after(deadline_s):
            while not until(text):
                await anyio.sleep(0.1)
                got = await self.ask("Runtime.evaluate", expression="document.documentElement.outerHTML")
                text = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", got["result"]["value"], flags=re.DOTALL)
        return text


@asynccontextmanager
async def browser(url: str) -> AsyncIterator[Page]:
    """Opens `url`; the browser, its children and its profile end with the context."""
    async with _profile() as profile:
        argv = [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            *QUIET,
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            "about:blank",
        ]
        around = os.environ | {"TMPDIR": profile}
        async with await anyio.open_process(argv, stdout=None, env=around, start_new_session=True) as chromium:
            try:
                port = await _port(chromium)
                async with aiohttp.ClientSession() as session:
                    pages = await (await session.get(f"http://127.0.0.1:{port}/json")).json()
                    target = next(one for one in pages if one["type"] == "page")
                    async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=1 << 24) as socket:
                        page = Page(socket)
                        await page.ask("Log.enable")
                        await page.ask("Page.navigate", url=url)
                        yield page
            finally:
                os.killpg(chromium.pid, signal.SIGKILL)


@asynccontextmanager
async def _profile() -> AsyncIterator[str]:
    """A folder for the browser; its children may write there for a moment after they were killed, so removal is tried until it holds."""
    folder = tempfile.TemporaryDirectory()
    try:
        yield folder.name
    finally:
        with anyio.fail_after(30, shield=True):
            while os.path.exists(folder.name):
                try:
                    folder.cleanup()
                except OSError:  # "Directory not empty": somebody wrote into it while it was being emptied
                    await anyio.sleep(0.05)


async def _port(chromium: anyio.abc.Process) -> int:
    assert chromium.stderr is not None
    seen = ""
    with anyio.fail_after(60):
        async for chunk in chromium.stderr:
            seen += chunk.decode(errors="replace")
            found = re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", seen)
            if found:
                return int(found[1])
    raise AssertionError(f"the browser did not start: {seen}")
