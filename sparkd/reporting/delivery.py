"""One notice -> a webhook that took it, or a program that read it; whatever they do, within a deadline."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
import subprocess
import uuid
from functools import partial
from typing import BinaryIO

import anyio

from sparkd.base import files
from sparkd.base.errors import HostError, SparkdError
from sparkd.model.config import Webhook
from sparkd.reporting.marked_processes import end_marked

MARK = "SPARKD_NOTICE"
"""A hook's own word in the environment of all that it starts."""


class NotDelivered(SparkdError):
    """A receiver did not take it."""


async def post(webhook: Webhook, body: bytes, *, deadline_s: float) -> None:
    """POST to the webhook, signed where there is a secret. Raises NotDelivered, HostError, OSError or TimeoutError."""
    from sparkd.http import post_json  # the daemon has it loaded; a process that never sends needs it not

    headers = {}
    if webhook.secret_file is not None:
        # Read now: a secret that was changed counts from the next notice on.
        secret = (await files.aside(partial(files.read, webhook.secret_file))).strip()
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

    The hook has a process group of its own. When the hook ends, or at the deadline, the whole group is killed, with what runs
    in the background. Only the hook itself is waited for: its input is a file and its output goes nowhere, so no child can
    hold us up by keeping them open. A child that leaves the group (setsid) is found by a mark in its environment, and killed
    too. The hook gets none of the daemon's environment.
    """
    mark = uuid.uuid4().hex
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ} | {MARK: mark}
    with _file(body) as notice:
        process = await anyio.open_process(
            argv,
            stdin=notice,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        with anyio.fail_after(deadline_s):
            code = await process.wait()
    finally:
        # Of a hook that has ended too: its number is not given to another process while one of its group lives.
        _kill_group(process.pid)
        with anyio.CancelScope(shield=True), anyio.move_on_after(deadline_s):
            await process.aclose()
            gone = partial(end_marked, f"{MARK}={mark}".encode())
            # A process that hangs in the kernel may keep a reader of its environment: then the thread is left behind.
            await anyio.to_thread.run_sync(gone, abandon_on_cancel=True)
    if code:
        raise NotDelivered(f"{argv[0]} ended with {code}")


def _file(body: bytes) -> BinaryIO:
    """In memory: a pipe would have to be fed for as long as a process holds its other end."""
    file = os.fdopen(os.memfd_create("notice"), "w+b")
    file.write(body)
    file.seek(0)
    return file


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it ended by itself
