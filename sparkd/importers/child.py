"""`python -m sparkd.importers.child FILE…`: YAML files -> their values as one JSON object on stdout, for `sparkd.fleet.load_config`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sparkd.importers.read import MAX_BYTES
from sparkd.node import regular
from sparkd.settings.reader import parse


def main(paths: list[str]) -> None:
    """What cannot be read is a text that says why: one bad file costs no other."""
    json.dump({"records": {path: _values(Path(path)) for path in paths}}, sys.stdout)


def _values(path: Path) -> Any:
    try:
        data = regular.read(str(path), MAX_BYTES)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    tree, problems = parse(data, str(path))
    if tree is None or problems:
        return f"line {problems[0].line}: {problems[0].text}"
    return tree.plain()


if __name__ == "__main__":
    main(sys.argv[1:])
