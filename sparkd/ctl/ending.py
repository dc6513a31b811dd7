"""Turns the way a verb ends into an exit code and a message: done, refused, interrupted, or its reader has gone."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from typing import TextIO

from sparkd.ctl.errors import FAILED, INTERRUPTED, CtlError
from sparkd.ctl.text import say

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of a write alone: what else a verb reads or opens never fails so."""


def ending(verb: Callable[[], int], as_json: bool) -> int:
    """The exit code of `verb`; its CtlError as text with the fix on stderr, or as JSON on stdout."""
    try:
        code = _answered(verb, as_json)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _into_nothing()
        return 0
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _into_nothing()
        _report(CtlError(f"the answer cannot be written: {error.strerror}", "make room, or write it elsewhere"), False)
        return FAILED
    return code


def _answered(verb: Callable[[], int], as_json: bool) -> int:
    try:
        return verb()
    except CtlError as error:
        _report(error, as_json)
        return error.exit_code


def _into_nothing() -> None:
    """The reader went away (`| head`), or there is no room. Python would complain once more when it flushes at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        sys.stderr.flush()
    except OSError:  # the same reader (`2>&1 | head`): Python would end with 120
        os.dup2(nothing, 2)


def printable_output() -> None:
    """Makes printing safe: neither LC_ALL=POSIX nor an output that the caller closed (`>&-`) ends in a traceback."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)  # for as long as the process lasts


def _report(error: CtlError, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.as_dict(), indent=2))
        return
    say(f"sparkd: {error.text}", sys.stderr)
    if error.fix:
        say(f"fix: {error.fix}", sys.stderr, indent="   ")
