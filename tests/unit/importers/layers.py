"""A real bash with stand-ins for ssh, docker, sudo and vllm that pass on or print what they are given."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

_PRINTS = """#!/usr/bin/env python3
import json, os, sys
env = {name: value for name, value in os.environ.items() if name.startswith("T_")}
print(json.dumps({"argv": sys.argv[1:], "env": env}))
"""

_STAND_INS = {
    "vllm": _PRINTS,
    # The words are joined with blanks and given to the shell of the other side, which has another environment.
    "ssh": '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nshift\n[ $# -gt 0 ] || exec env -i PATH="$PATH" bash -s\n'
    'exec env -i PATH="$PATH" bash -c "$*"\n',
    # `exec`: options, the container, then the command as it is.
    "docker": '#!/bin/bash\nshift\nsets=()\nwhile [[ $1 == -* ]]; do\n  [ "$1" = -e ] && { sets+=("$2"); shift; }\n  shift\n'
    'done\nshift\nexec env -i PATH="$PATH" "${sets[@]}" "$@"\n',
    "sudo": '#!/bin/bash\nexec env -i PATH="$PATH" "$@"\n',
}


def stand_ins(folder: Path) -> Path:
    """A folder for the front of PATH."""
    folder.mkdir(exist_ok=True)
    for name, text in _STAND_INS.items():
        folder.joinpath(name).write_text(text)
        folder.joinpath(name).chmod(0o755)
    return folder


def what_vllm_gets(script: Path, tools: Path) -> dict[str, object]:
    """Words and `T_…` variables of the (last) vllm that the script really starts."""
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", str(script)], env=env, cwd=script.parent, capture_output=True, text=True, timeout=30, check=True
    )
    found: dict[str, object] = json.loads([line for line in ran.stdout.splitlines() if line[:1] == "{"][-1])
    return found
