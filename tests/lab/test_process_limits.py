"""A rank as a unit with less memory than it needs. Swap, which another test makes, is the whole machine's: beside it such a
rank would not end, and switching that swap off would find no room for its pages."""

from __future__ import annotations

from .configured import NAME
from .nodes import Lab
from .units import MODEL, left, without_docker


def test_more_memory_than_its_limit_is_said_to_be_that(lab: Lab) -> None:
    with without_docker(lab, real=False) as daemon:
        daemon.configure(process=True, model=MODEL, container={"memory": "12MiB"})
        daemon.head.run(["systemctl", "restart", "sparkd.service"])
        daemon.ctl("start", NAME)
        ended = daemon.wait("a rank to be killed", lambda one: one["last_failure"], 60)
        assert ended["last_failure"]["signature"] == "oom-killed"
        daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
        assert not left(daemon)
