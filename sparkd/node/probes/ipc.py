"""/dev/shm and logind -> size and use of shared memory, and for whose users logind would remove it at their logout.

Lines: `size BYTES`, `used BYTES`, `logind running|stopped`, `removeipc yes|no`, and for every user asked for
`user NAME UID LINGER` (`lingers` or `-`), or `user NAME missing -`.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
from typing import Any, Mapping

from sparkd.node import arguments, procfs, regular, shm

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
LINGER = "/var/lib/systemd/linger"
FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")
"""Of the first that has it logind.conf is read; drop-ins of all, by name (systemd.conf.d(5))."""
SETTING = re.compile(r"\s*RemoveIPC\s*=\s*(\S*)\s*", re.IGNORECASE)
YES = ("1", "yes", "true", "on", "y", "t")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    usage = os.statvfs(shm.FOLDER)
    lines = [
        f"size {usage.f_blocks * usage.f_frsize}\n",
        f"used {(usage.f_blocks - usage.f_bfree) * usage.f_frsize}\n",
        f"logind {'running' if _logind() else 'stopped'}\n",
        f"removeipc {'yes' if removes(_texts()) else 'no'}\n",
    ]
    return "".join(lines) + "".join(_user(name) for name in arguments.items(args, "users", USER))


def removes(texts: list[str]) -> bool:
    """The last assignment counts; systemd's own default is yes, and an empty assignment is that default again."""
    found = [match for text in texts for match in map(SETTING.fullmatch, text.splitlines()) if match]
    value = found[-1].group(1).lower() if found else ""
    return not value or value in YES


def _texts() -> list[str]:
    files = [f"{folder}/logind.conf" for folder in FOLDERS if os.path.exists(f"{folder}/logind.conf")][:1]
    dropins: dict[str, str] = {}
    for folder in FOLDERS:
        for path in glob.glob(f"{folder}/logind.conf.d/*.conf"):
            dropins.setdefault(os.path.basename(path), path)
    files += [dropins[name] for name in sorted(dropins)]
    return [regular.beginning(path, 65536).decode("utf-8", "replace") for path in files if os.path.isfile(path)]


def _logind() -> bool:
    for pid in procfs.pids():
        try:
            if procfs.read_record(f"/proc/{pid}/comm") == b"systemd-logind\n":
                return True
        except procfs.GONE:
            continue
    return False


def _user(name: str) -> str:
    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        return f"user {name} missing -\n"
    lingers = os.path.exists(f"{LINGER}/{found.pw_name}")
    return f"user {name} {found.pw_uid} {'lingers' if lingers else '-'}\n"
