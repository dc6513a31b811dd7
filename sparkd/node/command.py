"""An argument vector and a deadline -> its output; at the deadline the whole process group is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NamedTuple, Sequence

from sparkd.node.refusal import Refusal


class Finished(NamedTuple):
    status: int
    output: str
    errors: str


def run(argv: Sequence[str], deadline_s: float) -> Finished:
    """Raises FileNotFoundError without the program, Refusal(timeout) at the deadline.

    A child that does not die (state D) keeps the caller here: its task stays taken, so that it is not started again.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
    return Finished(child.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))
