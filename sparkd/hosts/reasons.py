"""An exception of asyncssh or the system -> the HostError that says in one clause why a node could not be reached."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import asyncssh

from sparkd.base.errors import HostError, HostKeyChanged, Silent, Unreachable
from sparkd.base.one_line import clause
from sparkd.model.config import Node

ERRNO = {
    errno.ECONNREFUSED: "connection refused: sshd does not listen on port {port}",
    errno.ECONNRESET: "connection reset by the node",
    errno.EHOSTUNREACH: "no route to {address}: is the node on?",
    errno.ENETUNREACH: "no network to {address}",
}


def reason(node: Node, known_hosts: Path, pinned: asyncssh.SSHKnownHosts | None, error: Exception | None) -> HostError:
    """`pinned` is what that file holds, None where it was not read. `error` None means that the connection ended without one."""
    if isinstance(error, FileNotFoundError) and error.filename == str(known_hosts):
        return _not_pinned(node)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _host_key(node, pinned)
    # Only the pinned key's algorithm is asked for, so a new installation may already fail here.
    if isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in error.reason:
        return _host_key(node, pinned)
    return (Silent if _silent(error) else Unreachable)(node.name, clause(_why(node, error)))


def closed_by_node(error: Exception | None) -> bool:
    """Did the node end the connection itself, as one that is shut down does? Not where sparkd gave it up (errors of its own have
    no number): a frozen box whose channels did not open was once taken for one that had said goodbye, and never held."""
    return not _silent(error) and not (isinstance(error, OSError) and error.errno is None)


def _silent(error: Exception | None) -> bool:
    """A node that is off answers nothing, and on the same network the kernel finds no route to it. One whose programs are frozen
    lets a connection in and never says a word: both end by a deadline. What was refused, reset or closed was answered."""
    if isinstance(error, asyncssh.ConnectionLost):
        return "keepalive" in error.reason or "Login timeout" in error.reason
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno == errno.EHOSTUNREACH)


def _host_key(node: Node, pinned: asyncssh.SSHKnownHosts | None) -> HostError:
    if pinned is None or not any(pinned.match(node.address, "", node.port if node.port != 22 else None)):
        return _not_pinned(node)
    return HostKeyChanged(
        node.name, f"host key changed: if it was reinstalled, replace its line in known_hosts ({_scan(node)})"
    )


def _not_pinned(node: Node) -> HostError:
    return HostKeyChanged(node.name, f"no host key is pinned for {node.address}: {_scan(node)}")


def _why(node: Node, error: Exception | None) -> str:
    if error is None:
        return "the node closed the connection"
    if isinstance(error, OSError):
        return _system(node, error)
    if isinstance(error, asyncssh.PermissionDenied):
        return f"the node refused user {node.user} with key {node.key or '(the default ones)'}"
    if isinstance(error, asyncssh.KeyImportError):
        return f"key {node.key} cannot be used: {error}"
    if isinstance(error, UnicodeError):
        return f"what answers on port {node.port} does not speak SSH: {error}"
    if isinstance(error, asyncssh.DisconnectError):
        return f"connection lost: {error.reason}"
    return str(error)


def _system(node: Node, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name {node.address} cannot be resolved: {error.strerror}"
    if isinstance(error, TimeoutError):
        return f"timed out: {node.address} does not answer"
    if error.filename is not None and error.filename == node.key:
        return f"key {node.key} cannot be read: {error.strerror}"
    if error.errno in ERRNO:
        return ERRNO[error.errno].format(address=node.address, port=node.port)
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _scan(node: Node) -> str:
    """The command whose output, once its fingerprint has been compared on the node itself, belongs into known_hosts."""
    port = f"-p {node.port} " if node.port != 22 else ""
    return f"`ssh-keyscan {port}-t ed25519 {node.address}` shows its key; compare it on {node.name} first"
