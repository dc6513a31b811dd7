"""One notice -> a webhook that took it, or a program that read it; whatever they do, within a deadline."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
import subprocess

import anyio
from anyio.abc import Process

from sparkd.errors import HostError, SparkdError
from sparkd.model.config import Webhook


class NotDelivered(SparkdError):
    """A receiver did not take it."""


async def post(webhook: Webhook, body: bytes, *, deadline_s: float) -> None:
    """POST to the webhook, signed where there is a secret. Raises NotDelivered, HostError, OSError or TimeoutError."""
    from sparkd.http import post_json  # the daemon has it loaded; a process that never sends needs it not

    headers = {}
    if webhook.secret_file is not None:
        with anyio.fail_after(deadline_s):
            # Read now: a secret that was changed counts from the next notice on.
            secret = (await anyio.Path(webhook.secret_file).read_bytes()).strip()
        if not secret:
            raise NotDelivered(f"{webhook.secret_file} is empty, and unsigned nothing is sent")
        headers["X-Sparkd-Signature"] = f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"
    try:
        status = await post_json(webhook.url, body, headers, deadline_s)
    except HostError as error:
        raise NotDelivered(f"the webhook: {error.why}") from error  # its address is a secret with most services
    if not 200 <= status < 300:
        raise NotDelivered(f"the webhook answered {status}")


async def call(argv: tuple[str, ...], body: bytes, *, deadline_s: float) -> None:
    """Run a hook with the JSON on its standard input. Raises NotDelivered, OSError, or TimeoutError after killing it.

    It gets its own session, so that what it started goes with it, and none of the daemon's environment.
    """
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    process = await anyio.open_process(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        with anyio.fail_after(deadline_s):
            await _feed(process, body)
            code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(deadline_s):
            if process.returncode is None:
                _kill_group(process.pid)
            await process.aclose()
    if code:
        raise NotDelivered(f"{argv[0]} ended with {code}")


async def _feed(process: Process, body: bytes) -> None:
    assert process.stdin is not None  # asked for above
    try:
        await process.stdin.send(body)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        return  # it does not read; its exit code tells whether it minds


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it ended by itself
