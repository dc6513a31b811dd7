"""What the simulated engine says of its own arguments is typed as vLLM's parser types them."""

from __future__ import annotations

from sparkd.demo.engine.cli import parse


def test_numbers_are_printed_as_numbers() -> None:
    """`'0.1'` beside 0.1 read as a difference between what runs and what its file says."""
    words = "/m --gpu-memory-utilization 0.1 --block-size 256 --max-model-len 4k --dtype auto --uds /tmp/s"
    given = parse(words.split()).given
    told = {name: given[name] for name in ("gpu_memory_utilization", "block_size", "max_model_len", "dtype", "uds")}
    assert told == {
        "gpu_memory_utilization": 0.1,
        "block_size": 256,
        "max_model_len": 4000,
        "dtype": "auto",
        "uds": "/tmp/s",
    }
