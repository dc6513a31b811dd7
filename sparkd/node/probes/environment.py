"""Names of variables -> where this node sets them for its programs, one `SOURCE NAME=VALUE` a line.

SOURCE is `systemd` for what its manager gives every unit (DefaultEnvironment=, set-environment), else the file that logins
read. Only what is asked for is read out: variables hold secrets.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from sparkd.node import arguments, command, unit_files

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,100}")
FILE = "/etc/environment"


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    names = arguments.items(args, "names", NAME)
    found = {"systemd": unit_files.environment(_of_systemd(deadline_s), ()), FILE: unit_files.environment((), (FILE,))}
    return "".join(
        f"{source} {name}={' '.join(values[name].split())}\n"
        for source, values in found.items()
        for name in names
        if name in values
    )


def _of_systemd(deadline_s: float) -> Iterator[str]:
    """Nothing where there is no systemd, or none that answers: then it starts nothing either."""
    try:
        yield from command.run(["systemctl", "show-environment"], deadline_s * 0.8).output.splitlines()
    except FileNotFoundError:
        return
