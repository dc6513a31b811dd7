"""A child's output, whole and in bounds."""

from __future__ import annotations

import sys
import time

import pytest

from sparkd.node import command
from sparkd.node.refusal import Refusal


def python(script: str) -> list[str]:
    return [sys.executable, "-S", "-c", script]


def test_output_and_errors_come_whole_whoever_is_first() -> None:
    script = "import sys; sys.stderr.write('e' * 300000); sys.stdout.write('o' * 300000); sys.exit(3)"
    finished = command.run(python(script), 30)
    assert (finished.status, len(finished.output), len(finished.errors)) == (3, 300000, 300000)


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert command.run(python(r"import os; os.write(1, b'a\xff\n')"), 30).output == "a\ufffd\n"


def test_a_tool_gone_mad_is_ended_before_it_fills_the_memory() -> None:
    with pytest.raises(Refusal, match="printed more than 16 MiB and was killed"):
        command.run(["yes"], 60)


@pytest.mark.parametrize(
    "script", ["import time; time.sleep(60)", "import os, time; os.close(1); os.close(2); time.sleep(60)"]
)
def test_a_mute_one_costs_its_deadline(script: str) -> None:
    began = time.monotonic()
    with pytest.raises(Refusal, match=r"did not answer in 0\.3 s"):
        command.run(python(script), 0.3)
    assert time.monotonic() - began < 30
