"""A node whose memory runs short, as `ctl` shows it."""

from __future__ import annotations

from ctl_daemon import daemon, sparkd
from ctl_scenes import ALERT, short_of_memory


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_nodes_are_shown_with_what_takes_their_memory_and_what_to_do() -> None:
    with daemon(short_of_memory()) as server:
        shown = words(sparkd(server.socket_path, "ctl", "nodes").stdout)
    assert words(str(ALERT["text"])) in shown
    assert f"fix {ALERT['fix']}" in shown
    assert shown.count("runs out of memory") == 1


def test_a_group_that_serves_on_such_a_node_serves_and_the_exit_code_says_so() -> None:
    with daemon(short_of_memory()) as server:
        shown = sparkd(server.socket_path, "ctl", "status")
    assert shown.returncode == 0
    assert shown.stdout.startswith("ds4-flash is serving, but memory runs short on spark2.")
