"""Turns the way a verb ends into an exit code and a message: done, refused, interrupted, or nobody reads any more."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable

from sparkd.ctl.errors import INTERRUPTED, CtlError
from sparkd.ctl.text import say


def ending(verb: Callable[[], int], as_json: bool) -> int:
    """The exit code of `verb`; its CtlError as text with the fix on stderr, or as JSON on stdout."""
    try:
        code = verb()
        sys.stdout.flush()
    except CtlError as error:
        _report(error, as_json)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`). Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    return code


def printable_output() -> None:
    """LC_ALL=POSIX must not turn somebody's sentence into a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _report(error: CtlError, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.as_dict(), indent=2))
        return
    say(f"sparkd: {error.text}", sys.stderr)
    if error.fix:
        say(f"fix: {error.fix}", sys.stderr, indent="   ")
