"""What a log that cannot be read says instead of its lines."""

from __future__ import annotations

from sparkd.base.errors import DockerMute, DockerRefused
from sparkd.daemon.rank_logs import _unread


def test_a_rank_that_was_just_taken_down_says_where_its_log_is() -> None:
    said = _unread(DockerRefused("spark2", "no such container: 1f3c", 404), "ds4-flash", 13)
    assert said.startswith("this rank is gone, and its log with it")
    assert said.endswith("`sparkd ctl logs ds4-flash --generation 13`")


def test_any_other_reason_is_said_as_it_is() -> None:
    said = _unread(DockerMute("spark2", "no answer in 5 s"), "ds4-flash", 13)
    assert said == "this log cannot be read: docker on spark2: no answer in 5 s"
