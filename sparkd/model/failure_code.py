"""Why an action failed, as a closed set: one list for the code that names a failure and the code that judges it.

`decide/classify.py` has a row for every member. The values are written into journals and answers, so they stay.
"""

from __future__ import annotations

from enum import StrEnum


class FailureCode(StrEnum):
    """The machine-readable reason of an action that failed."""

    # Docker, of a start.
    IMAGE_MISSING = "image-missing"
    MOUNT_MISSING = "mount-missing"
    DEVICE_MISSING = "device-missing"
    NAME_TAKEN = "name-taken"
    PORT = "port"
    GPU = "gpu"

    # The node service, of a rank without a container.
    PATH_MISSING = "path-missing"
    USER_MISSING = "user-missing"
    NOT_EXECUTABLE = "not-executable"
    LIMITS = "limits"

    # The node service, of any request.
    OWNER = "owner"
    VERSION = "version"
    REFUSED = "refused"
    NOT_FOUND = "not_found"
    FAILED = "failed"
    USAGE = "usage"
    TIMEOUT = "timeout"
    """Also of an action as a whole."""
    UNKNOWN = "unknown"

    # Asking an engine for its parser.
    BUSY = "busy"
    ENDED = "ended"
    NO_PYTHON = "no-python"
    UNREADABLE = "unreadable"

    # Actions.
    SECRET = "secret"
    KILL = "kill"
    DOCKER = "docker"
    """A container could not be stopped or removed."""
    PROCESS = "process"
    """The same of a rank without a container."""
    CLEANUP = "cleanup"
    CAPTURE = "capture"
    DISK = "disk"
    ERROR = "error"
    BUG = "bug"

    OTHER = "other"
    """The words that came with it are all that is known."""

    @classmethod
    def read(cls, text: str) -> FailureCode:
        """The member with that value. A node service of another version may send one that is not known here: OTHER."""
        return next((one for one in cls if one == text), cls.OTHER)
