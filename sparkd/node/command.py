"""An argument vector and a deadline -> its output; at the deadline the whole process group is killed."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from typing import BinaryIO, NamedTuple, Optional, Sequence, Tuple

from sparkd.node.refusal import Refusal

MAX_BYTES = 16 << 20
"""Of output and errors together; the units of a busy node take a hundredth of it."""


class _TooMuch(Exception):
    pass


class Finished(NamedTuple):
    status: int
    output: str
    errors: str


def run(argv: Sequence[str], deadline_s: float, into: Optional[Tuple[BinaryIO, BinaryIO]] = None) -> Finished:
    """Raises FileNotFoundError without the program, Refusal(timeout) at the deadline, Refusal(failed)
    for more than MAX_BYTES.

    `into`: files for output and errors, whose size bounds itself; then both are empty in what is returned.

    A child that does not die (state D) keeps the caller here: its task stays taken, so that it is not started again.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=into[0] if into else subprocess.PIPE,
        stderr=into[1] if into else subprocess.PIPE,
        start_new_session=True,  # its own process group, so that a wrapper's children die with it
        env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
    )
    with child:
        try:
            output, errors = _heard(child, time.monotonic() + deadline_s)
        except (subprocess.TimeoutExpired, _TooMuch) as error:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if isinstance(error, _TooMuch):
                raise Refusal("failed", f"{argv[0]} printed more than {MAX_BYTES >> 20} MiB and was killed") from None
            raise Refusal("timeout", f"{argv[0]} did not answer in {deadline_s:g} s and was killed") from None
    return Finished(child.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


def _heard(child: subprocess.Popen[bytes], ends: float) -> Tuple[bytearray, bytearray]:
    """Output and errors, once the child has ended. Memory is the node's scarcest good: a tool gone mad must not fill it."""
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        for pipe, heard in ((child.stdout, output), (child.stderr, errors)):
            if pipe is not None:
                waiting.register(pipe, selectors.EVENT_READ, heard)
        while waiting.get_map():
            if time.monotonic() >= ends:
                raise subprocess.TimeoutExpired(child.args, 0.0)
            for key, _ in waiting.select(max(0.0, ends - time.monotonic())):
                part = os.read(key.fd, 1 << 16)
                key.data.extend(part)
                if not part:
                    waiting.unregister(key.fileobj)
            if len(output) + len(errors) > MAX_BYTES:
                raise _TooMuch
    child.wait(max(0.0, ends - time.monotonic()))
    return output, errors
