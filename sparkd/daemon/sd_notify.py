"""What systemd wants to hear, as datagrams to its socket (sd_notify)."""

from __future__ import annotations

import os
import socket

MAX_VALUE = 900
"""Characters of one field, up to four bytes each. systemd drops a message of more than 4096 bytes or with a zero byte in
it, and with it the WATCHDOG=1 that it carries: the words of a broken engine would end sparkd."""


def notify(**fields: str) -> bool:
    """Send `READY="1"`, `STATUS="…"`, `WATCHDOG="1"` and the like; a long value is cut. False where nobody listens.

    Never blocks and never raises: a service manager that is busy must not hold up the loop.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    text = "\n".join(f"{name}={_line(value)}" for name, value in fields.items())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.sendto(text.encode(), address)
        except OSError:
            return False  # nobody there, or no room: the next turn of the loop says it again
    return True


def _line(value: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in value).split())[:MAX_VALUE]
