"""What kind of failure an exit or a refused start is: (exit code, Docker's reason) -> class, signature, words.

The seam for the full signature tables: they refine what is said here, they do not replace it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.model.decision import FailureClass
from sparkd.model.snapshot import Container, Outcome


@dataclass(frozen=True, slots=True)
class Kind:
    cls: FailureClass
    signature: str
    text: str
    fact: str | None = None
    """The fact that a hold for this would re-read."""
    fix: str = ""
    proven: bool = False
    """Permanent beyond doubt: held at once instead of at the second identical failure."""


_T, _P, _U = FailureClass.TRANSIENT, FailureClass.PERMANENT, FailureClass.UNCLASSIFIED

_USAGE = "its usage error says which: correct the args"
_RIGHTS = "its log names it: check its permissions (with containers: in the image)"
_PATH = "its log names it: check its path (with containers: in the image and its mounts)"
_IMAGE = "check the path in the image and its mounts"
_MAY = "check the permissions of the command and of every folder above it for that user"
_LIMITS = "write smaller `container: {ulimits: …}`"

# After start-up every engine death exits 0 (vllm#48966, evidence 01 to 04): any exit while wanted is a failure.
EXITS: dict[int, Kind] = {
    0: Kind(_T, "exit-0", "ended by itself with status 0 although nobody asked it to"),
    1: Kind(_U, "exit-1", "ended with status 1"),
    2: Kind(_P, "exit-2", "refused its command line (status 2)", fix=_USAGE),
    125: Kind(_P, "exit-125", "could not be run by Docker (status 125)"),
    # Of a script it may be any command, and after hours: where it was looked for, and how late, the status does not say.
    126: Kind(_P, "exit-126", "ended with status 126: a command cannot be executed", fix=_RIGHTS),
    127: Kind(_P, "exit-127", "ended with status 127: a command is not there", fix=_PATH),
    134: Kind(_T, "exit-134", "aborted (SIGABRT)"),
    137: Kind(_T, "exit-137", "was killed (SIGKILL)"),
    139: Kind(_T, "exit-139", "crashed (SIGSEGV)"),
    143: Kind(_T, "exit-143", "was terminated (SIGTERM)"),
}

_GPU = "check nvidia-container-toolkit on that node"

REFUSALS: dict[str, Kind] = {
    "image-missing": Kind(_P, "image-missing", "the image is not there", "image", "pull or load it on that node", True),
    "mount-missing": Kind(_P, "mount-missing", "a mount source is missing", "mount", "create or mount it there", True),
    "name-taken": Kind(_P, "name-taken", "a container of that name is not ours", "name", "remove or rename it", True),
    "port": Kind(FailureClass.RESOURCE, "port-taken", "a port is taken", "port", "stop what holds the port", True),
    "gpu": Kind(_P, "gpu-missing", "Docker cannot give it the GPU", "gpu", _GPU, True),
    "path-missing": Kind(_P, "path-missing", "a path is missing", "path", "create or mount it on that node", True),
    "user-missing": Kind(_P, "user-missing", "its user does not exist", "user", "create the user on that node", True),
    "not-executable": Kind(_P, "exit-203", "its command cannot be executed by its user", "exit", _MAY, True),
    "limits": Kind(_P, "exit-205", "its limits are more than the node allows", "exit", _LIMITS, True),
    "secret": Kind(_P, "secret", "a secret cannot be read", "check", "correct that file on the head", True),
    "command": Kind(_P, "exit-127", "its command does not exist in the image", "exit", _IMAGE, True),
}

NOT_YET = frozenset({"image", "mount", "path", "gpu"})
"""Facts whose absence shortly after a node's boot proves nothing (DESIGN rule 7)."""


def of_exit(container: Container) -> Kind:
    """Class of a rank that ended by itself."""
    if container.oom_killed:
        return Kind(_T, "oom-killed", "was killed for lack of memory (OOMKilled)")
    code = container.exit_code if container.exit_code is not None else -1
    return EXITS.get(code, Kind(_U, f"exit-{code}", f"ended with status {code}"))


def of_refusal(outcome: Outcome, foreign: bool) -> Kind:
    """Class of a start that Docker or the node refused. What is not known for certain is tried again.

    A name that is taken by a container of ours (not `foreign`) is a create of an earlier try that Docker finished late.
    """
    known = REFUSALS.get(outcome.code)
    if known is None or (outcome.code == "name-taken" and not foreign):
        return Kind(_T, outcome.code or "start-refused", outcome.error)
    return Kind(known.cls, known.signature, outcome.error or known.text, known.fact, known.fix, known.proven)
