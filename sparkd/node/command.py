"""An argument vector and a deadline -> its output; at the deadline the whole process group is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import BinaryIO, NamedTuple, Optional, Sequence, Tuple

from sparkd.node.refusal import Refusal


class Finished(NamedTuple):
    status: int
    output: str
    errors: str


def run(argv: Sequence[str], deadline_s: float, into: Optional[Tuple[BinaryIO, BinaryIO]] = None) -> Finished:
    """Raises FileNotFoundError without the program, Refusal(timeout) at the deadline.

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
            output, errors = child.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise Refusal("timeout", f"{argv[0]} did not answer in {deadline_s:g} s and was killed") from None
    said = ((text or b"").decode("utf-8", "replace") for text in (output, errors))
    return Finished(child.returncode, *said)
