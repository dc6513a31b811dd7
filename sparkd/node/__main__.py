"""`python3 -m sparkd.node`: a listening socket from systemd, or one made at --socket, served until SIGTERM."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
from typing import Optional, Sequence

from sparkd.node import boot_memory, config, log, node
from sparkd.node.server import Server

FIRST_PASSED_DESCRIPTOR = 3
"""sd_listen_fds(3): passed descriptors start here."""


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="sparkd.node", description="sparkd's node service")
    parser.add_argument("--socket", help="listen here instead of on the socket that systemd passes")
    parser.add_argument("--config", default=config.DEFAULT_PATH, help="default: %(default)s")
    parser.add_argument("--state-dir", help="where the owner id is kept, instead of the configured folder")
    options = parser.parse_args(argv)

    settings = config.load(options.config)
    if settings.problem:
        log.error(f"read_file is off until this is mended: {settings.problem}")
    if options.state_dir:
        settings = settings._replace(state_dir=os.path.abspath(options.state_dir))
    ends = _told_to_end()
    listener = _passed() or _bound(options.socket)
    try:
        this = node.this(settings)
        boot_memory.record(settings.state_dir, this.boot)
        Server(this).serve(listener, ends)
    finally:
        if options.socket:
            os.unlink(options.socket)


def _told_to_end() -> socket.socket:
    """Can be read from once SIGTERM or SIGINT has come, on whichever thread.

    The kernel may hand a signal to a thread that serves a connection. A handler that raises would then wait for the main
    thread, which waits in accept(): such a service was ended by systemd's SIGKILL a minute later.
    """
    ends, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    return ends


def _passed() -> Optional[socket.socket]:
    """The socket systemd listens on for us, if this process is the one it was passed to."""
    if os.environ.pop("LISTEN_PID", None) != str(os.getpid()) or os.environ.pop("LISTEN_FDS", None) != "1":
        return None
    os.set_inheritable(FIRST_PASSED_DESCRIPTOR, False)
    return socket.socket(fileno=FIRST_PASSED_DESCRIPTOR)


def _bound(path: Optional[str]) -> socket.socket:
    if not path:
        sys.exit("sparkd.node: no socket was passed by systemd; say --socket PATH")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _remove_dead(path)
    mask = os.umask(0o117)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    listener.listen(64)
    return listener


def _remove_dead(path: str) -> None:
    """A socket file that a killed service left behind is removed; one with a listener stays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        found = trial.connect_ex(path)
    if found == 0:
        sys.exit(f"sparkd.node: {path} is in use by another service")
    if found == errno.ECONNREFUSED:
        os.unlink(path)


if __name__ == "__main__":
    main()
