"""The power hook of a node, used once: a program that ends, or one HTTP request that is answered, within its time.

What it says is cleaned: values of its header files are hidden, and so is what stands under a secret's name.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from functools import partial

import anyio

from sparkd.base import files, own_time, redact, secret_files
from sparkd.base.errors import HostError, Late
from sparkd.base.one_line import clause
from sparkd.model.power import Power

SAID_BYTES = 2000
KEPT_OF_US = ("PATH", "LANG", "HOME")
"""Of the daemon's environment; the rest is nobody's business."""


@dataclass(frozen=True, slots=True)
class Done:
    """`ok`: status 0, or an HTTP status of 2xx. `text` says which, or why it could not be done."""

    ok: bool
    text: str


def described(power: Power) -> str:
    """What would be done, for people: secrets as the files that hold them."""
    if power.url is None:
        return f"run {' '.join(power.command)}"
    headers = "".join(f", header {name} from {file}" for name, file in power.headers.items())
    body = f", body {power.body}" if power.body else ""
    return redact.text(f"{power.method} {power.url}{headers}{body}")


async def take(node: str, power: Power) -> Done:
    """Take the power of this node and give it back. Raises nothing but cancellation."""
    try:
        with own_time.fail_after(power.timeout):
            done = await (_run(node, power) if power.url is None else _request(power))
    except (TimeoutError, Late):
        return Done(False, f"not done within {power.timeout:g} s")
    except secret_files.SecretUnread as error:
        return Done(False, f"a header's value cannot be read: {error.why} ({error.fix})")
    except HostError as error:
        return Done(False, redact.text(error.why))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
        return Done(False, redact.text(f"it cannot be run: {getattr(error, 'strerror', None) or error}"))
    return done


async def _request(power: Power) -> Done:
    from sparkd import http  # the daemon has it loaded

    read = {name: await files.aside(partial(secret_files.read, file)) for name, file in power.headers.items()}
    body = power.body.encode() if power.body is not None else b""
    status, said = await http.send(power.method, power.url or "", body, read, power.timeout)
    words = f": {clause(redact.text(said))}" if said.strip() else ""
    return Done(200 <= status < 300, f"HTTP {status}{words}")


async def _run(node: str, power: Power) -> Done:
    """In a process group of its own, which is ended with it. Its output goes into memory, of which the end is shown: a pipe would
    wait for every child that holds it open."""
    environment = {name: os.environ[name] for name in KEPT_OF_US if name in os.environ} | {"SPARKD_NODE": node}
    with os.fdopen(os.memfd_create("power"), "w+b") as said:
        process = await anyio.open_process(
            list(power.command),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment,
            start_new_session=True,
        )
        try:
            code = await process.wait()
        finally:
            _end(process.pid)
            with anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                await process.aclose()
        size = said.seek(0, os.SEEK_END)
        said.seek(max(0, size - SAID_BYTES))
        words = said.read().decode("utf-8", "replace")
    last = f": {clause(redact.text(words))}" if words.strip() else ""
    return Done(code == 0, f"exit code {code}{last}")


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it ended by itself
