"""`python -m tests.lab up|down|status|shell NODE`: the lab for a person."""

from __future__ import annotations

import argparse
import os
import sys

from . import outer
from .commands import LabError
from .layout import PLANS
from .nodes import Lab


def main() -> int:
    """Runs one verb. Exit code 1 with one sentence when the lab could not do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="build what is missing and start both nodes (idempotent)")
    verbs.add_parser("install", help="put this tree's sparkd on the running nodes")
    verbs.add_parser("reset", help="bring both running nodes to a clean state")
    down = verbs.add_parser("down", help="remove the nodes and the outer engine; caches stay")
    down.add_argument("--purge", action="store_true", help="also remove images and the nodes' Docker disks")
    verbs.add_parser("status", help="what runs, and how to reach it")
    shell = verbs.add_parser("shell", help="a shell on a node, or a command: shell spark1 -- systemctl status")
    shell.add_argument("node", choices=[plan.name for plan in PLANS])
    shell.add_argument("argv", nargs="*", default=["bash"])
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("the lab needs root")
    lab = Lab()
    try:
        if chosen.verb in ("shell", "status"):
            return _perform(lab, chosen)
        with lab.exclusive(wait_s=600):
            return _perform(lab, chosen)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def _perform(lab: Lab, chosen: argparse.Namespace) -> int:
    if chosen.verb == "shell":
        flags = ["-it"] if sys.stdin.isatty() else ["-i"]
        command = [*outer.client(), "exec", *flags, chosen.node, *chosen.argv]
        os.execv(command[0], command)
    if chosen.verb == "down":
        lab.down(chosen.purge)
        return 0
    if chosen.verb == "up":
        lab.up()
    elif chosen.verb == "install":
        lab.install()
    elif chosen.verb == "reset":
        lab.reset()
    return _status(lab)


def _status(lab: Lab) -> int:
    if not outer.answers():
        print("the lab is down (python -m tests.lab up)")
        return 0
    for node in lab.nodes:
        fabric = f"{node.data_address} ({node.fabric_link})"
        print(f"{node.name}  {node.system_state():8}  management {node.address}  fabric {fabric}")
    print(f"shell on a node:      python -m tests.lab shell {lab.spark1.name}")
    print(f"outer Docker:         {' '.join(outer.client())} ps")
    print(f"from this machine:    {' '.join(outer.bench(['ping', '-c1', lab.spark1.address]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
