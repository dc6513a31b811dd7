"""What kind of failure an exit or a refused start is: (exit code, failure code) -> class, signature, words.

The seam for the full signature tables: they refine what is said here, they do not replace it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkd.model.decision import FailureClass
from sparkd.model.failure_code import FailureCode
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

_DRIVER = "load its driver on that node, or correct `container: {devices: …}`"
_C, _R = FailureCode, FailureClass.RESOURCE

REFUSALS: dict[FailureCode, Kind] = {
    _C.IMAGE_MISSING: Kind(
        _P, "image-missing", "the image is not there", "image", "pull or load it on that node", True
    ),
    _C.MOUNT_MISSING: Kind(_P, "mount-missing", "a mount source is missing", "mount", "create or mount it there", True),
    _C.DEVICE_MISSING: Kind(_P, "device-missing", "a device is missing", "device", _DRIVER, True),
    _C.NAME_TAKEN: Kind(_P, "name-taken", "a container of that name is not ours", "name", "remove or rename it", True),
    _C.PORT: Kind(_R, "port-taken", "a port is taken", "port", "stop what holds the port", True),
    _C.GPU: Kind(_P, "gpu-missing", "Docker cannot give it the GPU", "gpu", _GPU, True),
    _C.PATH_MISSING: Kind(_P, "path-missing", "a path is missing", "path", "create or mount it on that node", True),
    _C.USER_MISSING: Kind(_P, "user-missing", "its user does not exist", "user", "create the user on that node", True),
    _C.NOT_EXECUTABLE: Kind(_P, "exit-203", "its command cannot be executed by its user", "exit", _MAY, True),
    _C.LIMITS: Kind(_P, "exit-205", "its limits are more than the node allows", "exit", _LIMITS, True),
    _C.SECRET: Kind(_P, "secret", "a secret cannot be read", "check", "correct that file on the head", True),
    # None of these proves that the same would come of another try.
    _C.OWNER: Kind(_T, "owner", "the node belongs to another sparkd"),
    _C.VERSION: Kind(_T, "version", "the node service speaks another protocol"),
    _C.REFUSED: Kind(_T, "refused", "the node service does not do this"),
    _C.NOT_FOUND: Kind(_T, "not_found", "what was asked for is not there"),
    _C.FAILED: Kind(_T, "failed", "the node service tried and failed"),
    _C.USAGE: Kind(_T, "usage", "the node service does not understand the request"),
    _C.TIMEOUT: Kind(_T, "timeout", "it was not done in time"),
    _C.UNKNOWN: Kind(_T, "unknown", "the node service does not know the probe"),
    _C.BUSY: Kind(_T, "busy", "another engine is asked there"),
    _C.ENDED: Kind(_T, "ended", "the engine that was asked ended without an answer"),
    _C.NO_PYTHON: Kind(_T, "no-python", "the command names no Python"),
    _C.UNREADABLE: Kind(_T, "unreadable", "the answer cannot be understood"),
    _C.KILL: Kind(_T, "kill", "a process could not be ended"),
    _C.DOCKER: Kind(_T, "docker", "a container could not be stopped or removed"),
    _C.PROCESS: Kind(_T, "process", "a unit could not be stopped or removed"),
    _C.CLEANUP: Kind(_T, "cleanup", "a node could not be cleaned"),
    _C.CAPTURE: Kind(_T, "capture", "evidence could not be saved"),
    _C.DISK: Kind(_T, "disk", "evidence could not be written to the head's disk"),
    _C.ERROR: Kind(_T, "error", "it did not work"),
    _C.BUG: Kind(_T, "bug", "a bug in sparkd, see its log"),
    _C.OTHER: Kind(_T, "other", "it was refused"),
}
"""Every code has a row."""

NOT_YET = frozenset({"image", "mount", "path", "device", "gpu"})
"""Facts whose absence shortly after a node's boot proves nothing (DESIGN rule 7)."""


def of_exit(container: Container) -> Kind:
    """Class of a rank that ended by itself."""
    if container.oom_killed:
        return Kind(_T, "oom-killed", "was killed for lack of memory (OOMKilled)")
    code = container.exit_code if container.exit_code is not None else -1
    return EXITS.get(code, Kind(_U, f"exit-{code}", f"ended with status {code}"))


def of_refusal(outcome: Outcome, foreign: bool) -> Kind:
    """Class of a start that Docker or the node refused. A refusal of unknown cause is tried again.

    A name that is taken by a container of ours (not `foreign`) is a create of an earlier try that Docker finished late.
    """
    code = outcome.code or FailureCode.OTHER
    known = REFUSALS[code]
    if code is FailureCode.NAME_TAKEN and not foreign:
        return Kind(_T, "name-taken", outcome.error)
    return replace(known, text=outcome.error or known.text)
