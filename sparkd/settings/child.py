"""`python -m sparkd.settings.child PATH`: a configuration directory -> one JSON object on stdout, for `sparkd.fleet.load_config`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from sparkd import __version__
from sparkd.base.errors import ConfigError
from sparkd.base.json_codec import encode
from sparkd.settings import load


def main(path: str) -> None:
    """Good or bad configuration alike end with 0: what cannot be used is an answer too."""
    try:
        answer = {"config": encode(load(Path(path)))}
    except ConfigError as error:
        answer = {"problems": [asdict(problem) for problem in error.problems]}
    json.dump({"version": __version__, **answer}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
