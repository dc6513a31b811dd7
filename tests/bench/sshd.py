"""`python -m tests.bench.sshd FOLDER ADDRESS PORT`: the worker's sshd, with a pinned key, which forwards Unix sockets."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import asyncssh

HOST_KEY, USER_KEY, KNOWN_HOSTS = "ssh_host_key", "key", "known_hosts"


class _Door(asyncssh.SSHServer):
    def unix_connection_requested(self, dest_path: str) -> bool:
        return True


def pin(folder: Path, address: str, port: int) -> None:
    """Both keys, and known_hosts with the server's."""
    host = asyncssh.generate_private_key("ssh-ed25519")
    user = asyncssh.generate_private_key("ssh-ed25519")
    host.write_private_key(folder / HOST_KEY)
    user.write_private_key(folder / USER_KEY)
    user.write_public_key(folder / f"{USER_KEY}.pub")
    line = f"[{address}]:{port} {host.export_public_key().decode().strip()}\n"
    (folder / KNOWN_HOSTS).write_text(line, "utf-8")


async def main(folder: str, address: str, port: str) -> None:
    await asyncssh.listen(
        address,
        int(port),
        server_factory=_Door,
        server_host_keys=[str(Path(folder) / HOST_KEY)],
        authorized_client_keys=str(Path(folder) / f"{USER_KEY}.pub"),
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
