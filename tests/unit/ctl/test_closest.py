"""What was typed, and what was meant by it."""

from __future__ import annotations

import pytest

from sparkd.base.did_you_mean import closest

VARIABLES = ("VLLM_TRITON_USE_TD", "VLLM_USE_V1", "VLLM_HOST_IP")
FLAGS = ("max-model-len", "max-num-seqs", "max-num-batched-tokens")


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("VLLM_TRITON_MLA_SPARSE", VARIABLES, None),  # a variable of another build, and no typo
        ("VLLM_TRITON_USE_DT", VARIABLES, "VLLM_TRITON_USE_TD"),
        ("vllm-host-ip", VARIABLES, "VLLM_HOST_IP"),
        ("max-model-length", FLAGS, "max-model-len"),
        ("max-num-seq", FLAGS, "max-num-seqs"),
        ("max-nun-seqs", FLAGS, "max-num-seqs"),
        ("stpo", ("stop", "start"), "stop"),
        ("mode", ("nodes",), None),
        ("stat", ("status", "start", "stop"), "status"),  # one that only reads, and not the one that acts
        ("dev", ("devstral", "qwen-coder"), "devstral"),
    ],
)
def test_near_is_what_is_spelled_alike_in_its_own_part(typed: str, known: tuple[str, ...], meant: str | None) -> None:
    assert closest(typed, known) == meant
