"""A script for the Python of an engine on this node -> what it printed: one short unit that reaches nothing.

It runs as the user of the ranks, who may be started here with any command anyway, and with much less than a rank has: no
network, no device, no capability, no file to write to but a small /tmp. It is the first that the kernel kills when memory
runs out, the last that gets a processor, and it ends by itself when nobody is left to end it.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any, BinaryIO, List, Mapping, NamedTuple

from sparkd.node import arguments, patience, units
from sparkd.node.node import Node
from sparkd.node.refusal import Refusal
from sparkd.node.verbs import ranks

UNIT = "sparkd-ask.service"
"""One at a time, and no rank's name: nothing here is ever listed as a rank."""
MEMORY_BYTES = 4 << 30
"""As for an image's engine: vLLM's CPU build takes 0.6 GB, its CUDA libraries about 1 GB more."""
MOST_BYTES = 4 << 20
LAST_WORDS = 300
CONFINED = (
    *("NoNewPrivileges=yes", "CapabilityBoundingSet=", "RestrictSUIDSGID=yes", "LockPersonality=yes"),
    *("PrivateNetwork=yes", "PrivateDevices=yes", "ProtectSystem=strict", "ProtectHome=read-only"),
    *("ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectControlGroups=yes"),
    *(
        "TemporaryFileSystem=/tmp:size=256m,mode=1777",
        "LimitCORE=0",
        f"LimitFSIZE={MOST_BYTES}",
    ),  # what it prints is a file
    *(f"MemoryMax={MEMORY_BYTES}", "MemorySwapMax=0", "TasksMax=256", "OOMScoreAdjust=1000", "OOMPolicy=kill"),
    *("Nice=19", "CPUWeight=1", "IOSchedulingClass=idle", "TimeoutStopSec=2s"),
)
MARGIN = 0.9
"""Of the deadline, within which systemd ends it: then there is still time to say so."""
WAITED = re.compile(
    r"^Finished with result: (\S+)$(?:\s^Main processes terminated with: code=\w+\W+status=(?:\d+/)?(\w+)$)?",
    re.MULTILINE,
)
"""What systemd-run says of it at the end, behind its own last words."""
ENDS = {
    "oom-kill": "it was killed: it took more than {0:g} GiB of memory",
    "KILL": "it was killed, as likely as not because it took more than {0:g} GiB of memory",  # on control groups v1
    "timeout": "it did not end in {1:g} s",
    "ALRM": "it did not end in {1:g} s",  # its own alarm
}


class Question(NamedTuple):
    python: str
    script: str
    user: str
    env: Mapping[str, str]


def ask_engine(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> str:
    """What it printed on its standard output. Code `busy` while another one is asked here, `ended` when it said nothing."""
    asked = _question(args)
    seconds = deadline_s * MARGIN
    folder = os.environ.get("RUNTIME_DIRECTORY")
    # Files, not pipes: the kernel bounds their size, whatever is printed.
    with tempfile.TemporaryFile(dir=folder) as output, tempfile.TemporaryFile(dir=folder) as errors:
        finished = units.systemctl(systemd_run(asked, seconds), deadline_s, (output, errors))
        if finished.status:
            raise _refusal(_text(errors), seconds)
        return _text(output)


def stop_asking(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> str:
    """Ends the unit that asks the parser, also one that another client started. Returns `stopped`."""
    units.systemctl(["systemctl", "stop", "--", UNIT], deadline_s)  # fails where it has just ended by itself
    return "stopped"


def _question(args: Mapping[str, Any]) -> Question:
    python, user = arguments.text(args, "python"), arguments.text(args, "user")
    if not python.startswith("/") or not patience.answered(python, os.path.isfile):
        raise Refusal("path-missing", f"{python[:200]} is no program of this node")
    ranks.check_user(user)
    return Question(python, arguments.text(args, "script"), user, ranks.variables(args, "env"))


def systemd_run(asked: Question, seconds: float) -> List[str]:
    """Not quiet: how it ended is in what systemd-run says."""
    return [
        *("systemd-run", "--wait", "--collect", "--pipe", "--no-ask-password", "--service-type=exec"),
        *(f"--unit={UNIT}", "--description=sparkd asks an engine for its parser", f"--uid={asked.user}"),
        *("--working-directory=/", f"--property=RuntimeMaxSec={seconds:g}s"),
        *(f"--property={one}" for one in CONFINED),
        *(f"--setenv={name}={value}" for name, value in asked.env.items()),
        *("--", asked.python, *(word.replace("$", "$$") for word in ("-c", asked.script, f"{seconds:.0f}"))),
    ]


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _refusal(said: str, seconds: float) -> Refusal:
    if "already loaded" in said or "already exists" in said:
        return Refusal("busy", "another engine is asked here")
    ended = WAITED.search(said)
    for how in ended.groups() if ended else ():
        if how in ENDS:
            return Refusal("ended", ENDS[how].format(MEMORY_BYTES / (1 << 30), seconds))
    return Refusal("ended", _last_words(said[: ended.start()] if ended else said))


def _last_words(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("Running as unit")]
    return lines[-1].strip()[:LAST_WORDS] if lines else "it ended without a word"
