"""The door of the `sparkd` command: the two forms of `ctl status` that scripts call go straight through, all else to click.

Importing click and declaring the options is a third of what `ctl status` would cost, and these forms need no parsing.
"""

from __future__ import annotations

import sys

STATUS = (["ctl", "status"], ["ctl", "status", "--json"])


def main() -> None:
    if sys.argv[1:] in STATUS:
        sys.exit(_status(as_json="--json" in sys.argv))
    from sparkd.cli.main import main as run

    run()


def _status(as_json: bool) -> int:
    from sparkd.ctl.client import Api, default_socket
    from sparkd.ctl.ending import ending, printable_output
    from sparkd.ctl.look import show_status

    printable_output()
    return ending(lambda: show_status(Api(default_socket()), None, as_json), as_json)


if __name__ == "__main__":
    main()
