"""Entry of `python3 -m sparkd.demo.engine`; as a plain folder (`python3 FOLDER serve …`) it imports itself by name."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def run() -> int:
    """Runs the command line in sys.argv; returns the exit status."""
    if __package__:
        from .cli import main

        return main(sys.argv[1:])
    folder = Path(__file__).resolve().parent
    # The folder itself must not stay importable: its modules would shadow the standard library's.
    sys.path[0] = str(folder.parent)
    code: int = import_module(folder.name + ".cli").main(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(run())
