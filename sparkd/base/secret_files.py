"""The file that a secret's reference names -> its value, for the start of a rank and for the code that hides it.

Everything that reads one comes here, so that what was ever handed out is known for as long as this sparkd lives: a secret
that was changed since is still in the environment of the ranks that were started with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkd.base import files
from sparkd.base.errors import SparkdError
from sparkd.node.regular import TooMuch

MAX_BYTES = 64 << 10
"""Of one secret: Linux takes at most 128 KiB for one variable, and a larger file is another file."""
KEPT = 16
"""Values of one file that are remembered, the newest: a token that is changed every hour is not kept for ever."""

_read: dict[str, tuple[str, ...]] = {}
"""File -> the values that were read from it, the newest last."""


class SecretUnread(SparkdError):
    """There is no value to be had from this file. `why` is a clause, `fix` what to do about it."""

    def __init__(self, why: str, fix: str) -> None:
        self.why, self.fix = why, fix
        super().__init__(why)


def read(file: str) -> str:
    """The value: the text of the file without the line end at its end. Raises SecretUnread. Blocks as `files.read` does."""
    try:
        raw = files.read(file, MAX_BYTES)
    except FileNotFoundError:
        raise SecretUnread("there is no such file", f"write the value to {file}") from None
    except PermissionError:
        raise SecretUnread("sparkd may not read it", f"chown sparkd {file}; chmod 600 {file}") from None
    except TooMuch as error:
        raise SecretUnread(error.strerror or "it is too large", f"write only the value to {file}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SecretUnread(why, f"make {file} a file with the value") from None
    value = _text(raw, file)
    known = [one for one in _read.get(file, ()) if one != value]
    _read[file] = (*known, value)[-KEPT:]
    return value


def values(named: Iterable[str] | None = None) -> frozenset[str]:
    """What these files (without any named, all of them) were ever read to hold, and hold now where they can be read."""
    asked = None if named is None else list(named)
    for file in asked or ():
        try:
            read(file)
        except SecretUnread:
            continue  # an unreadable secret was never handed out, unless it could be read before
    return frozenset(value for file in (_read if asked is None else asked) for value in _read.get(file, ()))


def unread(secrets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The secrets (name -> file) without a usable value -> why, and what to do about it."""
    found = {}
    for name, file in secrets.items():
        try:
            read(file)
        except SecretUnread as error:
            found[name] = (error.why, error.fix)
    return found


def _text(raw: bytes, file: str) -> str:
    if b"\0" in raw:
        raise SecretUnread("it holds a zero byte, which no variable can", f"write the value to {file} as text")
    try:
        text = raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1} of it is no UTF-8"
        raise SecretUnread(why, f"write the value to {file} as UTF-8 text, or encode it (base64)") from None
    if not text.strip():
        raise SecretUnread("it is empty", f"write the value to {file}")
    return text
