"""vLLM's page of metrics -> progress, and what speculation and the KV cache are like."""

from __future__ import annotations

from sparkd.engines.prometheus import Samples, samples
from sparkd.model.printed import Unread, whole
from sparkd.model.snapshot import EngineMetrics

_COUNTERS = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
"""Field of EngineMetrics -> its name on the page; the cache's second one is that before 0.10."""
_SHARES = frozenset(_COUNTERS["kv_cache_usage"])
"""Metrics of which the highest value counts, not the sum."""
_MOST = 2.0**53
_MOST_DRAFTED = 64
"""Tokens that are drafted for one step."""


def metrics(text: str) -> EngineMetrics | None | Unread:
    page = samples(text)
    if isinstance(page, Unread):
        return page
    read = {field: _counted(page, *names) for field, names in _COUNTERS.items()}
    odd = next((value for value in read.values() if isinstance(value, Unread)), None)
    found = {field: value for field, value in read.items() if not isinstance(value, Unread | None)}
    if not {"prompt_tokens", "generation_tokens"} & found.keys():
        return odd
    return odd or EngineMetrics(
        running=found.get("running", 0.0),
        waiting=found.get("waiting", 0.0),
        prompt_tokens=found.get("prompt_tokens", 0.0),
        generation_tokens=found.get("generation_tokens", 0.0),
        kv_cache_usage=found.get("kv_cache_usage"),
        acceptance=_acceptance(page),
        kv_cache_tokens=_cache_tokens(page),
    )


def _counted(page: Samples, *names: str) -> float | None | Unread:
    """The first of these that the page has, summed over all engines. Above 2^53 a float does not move with a token any more, and
    a stall would look like a lie."""
    for name in names:
        value = page.total(name) if name not in _SHARES else page.highest(name)
        if value is not None:
            counts = isinstance(value, Unread) or value <= _MOST
            return value if counts else Unread(f"{name} is {value:g}, which no counter is")
    return None


def _acceptance(page: Samples) -> tuple[float, ...]:
    """The part of the drafts that was accepted at each position; empty where the page has no such numbers."""
    drafts = page.total("vllm:spec_decode_num_drafts_total")
    accepted = page.by_label("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
    if drafts is None or isinstance(drafts, Unread) or drafts < 1:
        return ()
    parts = [accepted[key] / drafts for key in sorted(accepted, key=lambda label: whole(label) or 0)]
    return tuple(parts) if len(parts) <= _MOST_DRAFTED and all(0 <= part <= 1 for part in parts) else ()


def _cache_tokens(page: Samples) -> int | None:
    """Blocks times their size; vLLM tells both as labels."""
    found = (
        (whole(one.get("num_gpu_blocks", "")), whole(one.get("block_size", "")))
        for one in page.labels("vllm:cache_config_info")
    )
    tokens = sum(blocks * size for blocks, size in found if blocks and size)
    return tokens if 0 < tokens <= _MOST else None
