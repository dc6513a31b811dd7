"""What can go wrong between `sparkd ctl` and the daemon, as one sentence, its fix and an exit code.

CtlError
├── Unreached      no daemon behind the socket, or nothing usable came back (exit 3)
├── Refused        the daemon said no; the exit code follows its HTTP status
├── Usage          a name or a node that does not exist, or none given where there are several (exit 2)
└── NotConfirmed   the question was answered with no, or there was nobody to ask (exit 2)

A tree of its own, because nothing of it ever leaves the client, and importing sparkd.base.errors (dataclasses) costs 6 ms.
"""

from __future__ import annotations

FAILED, USAGE, UNREACHED, NOT_SERVING, DIFFERENT, OUT_OF_TIME, INTERRUPTED = 1, 2, 3, 4, 5, 6, 130
"""Exit codes of docs/interfaces.md; 130 is the shell's own convention for ctrl-C."""


class CtlError(Exception):
    """`text` says what happened, `fix` what to do; `code` is for scripts, `exit_code` for the shell."""

    code = "failed"
    exit_code = FAILED

    def __init__(self, text: str, fix: str = "") -> None:
        self.text, self.fix = text, fix
        super().__init__(text)

    def as_dict(self) -> dict[str, object]:
        return {"schema": 1, "error": {"code": self.code, "text": self.text, "fix": self.fix}}


class Unreached(CtlError):
    code = "unreached"
    exit_code = UNREACHED


class Refused(CtlError):
    """`status` is the HTTP status: 400 and 404 are wrong usage, everything else a failure."""

    def __init__(self, text: str, fix: str, code: str, status: int) -> None:
        super().__init__(text, fix)
        self.code, self.status = code, status
        self.exit_code = USAGE if status in (400, 404) else FAILED


class Usage(CtlError):
    code = "usage"
    exit_code = USAGE


class NotConfirmed(CtlError):
    code = "not_confirmed"
    exit_code = USAGE
