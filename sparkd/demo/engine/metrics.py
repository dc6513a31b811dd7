"""Turns what the engine reports into vLLM's metrics page: the same names, labels, types and buckets."""

from __future__ import annotations

import os
import resource
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

GAUGES = {
    "vllm:num_requests_running": "Number of requests in model execution batches.",
    "vllm:num_requests_waiting": "Number of requests waiting to be processed.",
    "vllm:kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage.",
}
COUNTERS = {
    "vllm:prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "vllm:prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "vllm:num_preemptions": "Cumulative number of preemption from the engine.",
    "vllm:prompt_tokens": "Number of prefill tokens processed.",
    "vllm:generation_tokens": "Number of generation tokens processed.",
}
SPECULATIVE = {
    "vllm:spec_decode_num_drafts": "Number of spec decoding drafts.",
    "vllm:spec_decode_num_draft_tokens": "Number of draft tokens.",
    "vllm:spec_decode_num_accepted_tokens": "Number of accepted tokens.",
}
REASONS = ("stop", "length", "abort", "error")
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "vllm:iteration_tokens_total": (
        "Histogram of number of tokens per engine_step.",
        (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    ),
    "vllm:time_to_first_token_seconds": (
        "Histogram of time to first token in seconds.",
        (
            *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
            *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
        ),
    ),
    "vllm:inter_token_latency_seconds": (
        "Histogram of inter-token latency in seconds.",
        (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    ),
    "vllm:e2e_request_latency_seconds": ("Histogram of e2e request latency in seconds.", LATENCY_BUCKETS),
}


class Histogram:
    """Observations per bucket, as Prometheus counts them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(float(bound) for bound in bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """The counters of one API server. Written by its main thread and by request threads, read by scrapes."""

    def __init__(self, model: str, draft_tokens: int) -> None:
        self.labels = f'engine="0",model_name="{model}"'
        self.draft_tokens = draft_tokens
        self.gauges = dict.fromkeys(GAUGES, 0.0)
        self.counters = dict.fromkeys([*COUNTERS, *(SPECULATIVE if draft_tokens else ())], 0.0)
        self.finished = dict.fromkeys(REASONS, 0.0)
        self.histograms = {name: Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
        self.created = time.time()
        self._lock = threading.Lock()

    def step(self, report: dict[str, Any]) -> None:
        """A step has ended. Nothing else moves a gauge: a step that hangs leaves the page as it was (evidence 05b)."""
        with self._lock:
            self.gauges["vllm:num_requests_running"] = report["running"]
            self.gauges["vllm:num_requests_waiting"] = report["waiting"]
            self.gauges["vllm:kv_cache_usage_perc"] = report["kv"]
            self.counters["vllm:prompt_tokens"] += report["prompt"]
            self.counters["vllm:prefix_cache_queries"] += report["prompt"]
            self.counters["vllm:generation_tokens"] += report["generated"]
            self.histograms["vllm:iteration_tokens_total"].observe(report["prompt"] + report["generated"])
            if self.draft_tokens:
                for position, name in enumerate(SPECULATIVE):
                    self.counters[name] += report["drafts"][position]

    def observe(self, name: str, seconds: float) -> None:
        with self._lock:
            self.histograms[name].observe(seconds)

    def finish(self, reason: str) -> None:
        with self._lock:
            self.finished[reason] += 1

    def page(self) -> str:
        """The text of /metrics."""
        with self._lock:
            return "\n".join([*process_lines(), *self._lines()]) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, text in GAUGES.items():
            yield from head(name, "gauge", text)
            yield f"{name}{{{self.labels}}} {float(self.gauges[name])}"
        for name, value in self.counters.items():
            yield from self._counter(name, {**COUNTERS, **SPECULATIVE}[name], {"": value})
        reasons = {f'finished_reason="{reason}",': value for reason, value in self.finished.items()}
        yield from self._counter("vllm:request_success", "Count of successfully processed requests.", reasons)
        if self.draft_tokens:
            yield from self._positions()
        for name, histogram in self.histograms.items():
            yield from self._histogram(name, histogram)

    def _counter(self, name: str, text: str, values: dict[str, float]) -> Iterator[str]:
        yield from head(f"{name}_total", "counter", text)
        for label, value in values.items():
            yield f"{name}_total{{{label}{self.labels}}} {float(value)}"
        yield from head(f"{name}_created", "gauge", text)
        for label in values:
            yield f"{name}_created{{{label}{self.labels}}} {self.created}"

    def _positions(self) -> Iterator[str]:
        """Accepted tokens per draft position: the schedule accepts the first half of every draft."""
        drafts = self.counters["vllm:spec_decode_num_drafts"]
        accepted = (self.draft_tokens + 1) // 2
        values = {f'position="{at}",': drafts if at < accepted else 0.0 for at in range(self.draft_tokens)}
        name = "vllm:spec_decode_num_accepted_tokens_per_pos"
        yield from self._counter(name, "Accepted tokens per draft position.", values)

    def _histogram(self, name: str, histogram: Histogram) -> Iterator[str]:
        yield from head(name, "histogram", HISTOGRAMS[name][0])
        bounds = [*(str(bound) for bound in histogram.bounds), "+Inf"]
        seen = 0
        for position, bound in enumerate(bounds):
            seen += histogram.counts[position]
            yield f'{name}_bucket{{{self.labels},le="{bound}"}} {float(seen)}'
        yield f"{name}_count{{{self.labels}}} {float(seen)}"
        yield f"{name}_sum{{{self.labels}}} {histogram.total}"


def head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def process_lines() -> Iterator[str]:
    """The process_* basics of every Python exporter, about the API server."""
    statm = Path("/proc/self/statm").read_text().split()
    times = os.times()
    page_bytes = resource.getpagesize()
    start_ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    started = int(boot.split()[1]) + start_ticks / os.sysconf("SC_CLK_TCK")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    values = (
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", int(statm[0]) * page_bytes),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", int(statm[1]) * page_bytes),
        ("start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", started),
        ("cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", times.user + times.system),
        ("open_fds", "gauge", "Number of open file descriptors.", len(os.listdir("/proc/self/fd"))),
        ("max_fds", "gauge", "Maximum number of open file descriptors.", files),
    )
    for name, kind, text, value in values:
        yield from head(f"process_{name}", kind, text)
        yield f"process_{name} {float(value)}"
