"""The parent of a full rank: the API server, its engine core, and what vLLM says and does when one of them ends."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from . import flags, process, stages, texts, weights
from .client import EngineClient
from .core import EngineCore
from .front import FAULT_INTERVAL_S, Front, Ordered
from .log import bare, traceback
from .metrics import Metrics
from .options import Options, Sim
from .stages import StageFailed
from .wire import Lost, Wire, pair

if TYPE_CHECKING:
    from .web import Api

# Exit after a request was answered 500, and how long running answers may take to end (evidence 01: 0.14 s in all).
AFTER_500_S = 0.1
LAST_ANSWERS_S = 1.0
TERMINATE_S = 0.2
# Uncaught KeyboardInterrupt: what vLLM's handler makes of SIGTERM while it starts.
INTERRUPTED = 130


class Head(Front):
    """`vllm serve` without --headless. Rank 0 serves; another rank fails for want of --headless (evidence 06)."""

    def __init__(self, options: Options, sim: Sim) -> None:
        super().__init__(options, sim, "APIServer")
        self.core, self._core_end = pair()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.engine = EngineClient(self.core, Metrics(options.names[0], options.draft_tokens), self.failed_request)
        self.core_pid = self.worker_pid = 0
        self.api: Api | None = None
        self.sources: list[Wire] = [self.core]
        self.dead_at: float | None = None
        self.stats_at: float | None = None
        self.last_stats = (0.0, 0.0)
        self.rates = (0.0, 0.0)

    def run(self) -> int:
        """The whole life of the process; returns its exit status."""
        try:
            self.start()
        except StageFailed as failed:
            bare("\n".join([*traceback(texts.START_FRAMES), str(failed)]))
            self.kill_children()
            return stages.exit_code(self.faults)
        except Ordered:
            self.kill_children()
            bare("\n".join([*traceback(texts.MAIN_FRAMES), "KeyboardInterrupt: terminated"]))
            return INTERRUPTED
        try:
            self.serve()
        except Ordered:
            self.stop()
        os._exit(0)  # request threads may still stand in a dead client's socket: nothing waits for them

    # Start.

    def start(self) -> None:
        """From the first import to an open port; raises StageFailed or Ordered."""
        self.stage("imports")
        self.say_what_is_told()
        self.check_parsers()
        self.log.line("INFO", "api_utils.py:347", texts.BANNER.format(model=self.options.model))
        self.log.line("INFO", "api_utils.py:286", f"non-default args: {self.options.given}")
        self.bind()
        error = weights.find(self.options.model)
        if error:
            raise StageFailed(error)
        self.stage("config")
        self.log.table(texts.CONFIG, **self.options.facts)
        self.core_pid = process.fork(self.become_core)
        self.children.append(self.core_pid)
        self._core_end.close()
        self.await_core()
        self.stage("ready")
        while self.faults.now().get("no_ready"):
            self.wait([], FAULT_INTERVAL_S)
        self.open()

    def check_parsers(self) -> None:
        """The parser names vLLM knows; both errors come late enough to be a status 1 (evidence 16)."""
        tool = self.options.given.get("tool_call_parser")
        if tool and self.options.given.get("enable_auto_tool_choice") and tool not in flags.TOOL_PARSERS:
            raise StageFailed(texts.BAD_TOOL_PARSER.format(tool, ",".join(flags.TOOL_PARSERS)))
        reasoning = self.options.given.get("reasoning_parser")
        if reasoning and reasoning not in flags.REASONING_PARSERS:
            raise StageFailed(texts.BAD_REASONING_PARSER.format(reasoning, ", ".join(flags.REASONING_PARSERS)))

    def bind(self) -> None:
        """Takes the API port, not listening yet; a taken port is an OSError that does not name it (evidence 09)."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.sock.bind((self.options.host, self.options.port))
        except OSError as error:
            raise StageFailed(f"OSError: {error}") from error

    def become_core(self) -> int:
        self.signals.close()
        self.core.close()
        self.sock.close()
        return EngineCore(self.options, self.sim, self._core_end).run()

    def await_core(self) -> None:
        """Waits until the engine core is ready; raises StageFailed when it ended."""
        while True:
            self.reap()
            for source in self.wait([self.core]):
                try:
                    words = source.read()
                except Lost:
                    raise StageFailed(texts.CORE_FAILED.format("{'EngineCore': 1}")) from None
                for word in words:
                    if "worker" in word:
                        self.worker_pid = word["worker"]
                        self.children.append(self.worker_pid)
                    elif "ready" in word:
                        return

    def open(self) -> None:
        """Opens the port and says so."""
        from .web import Api, Server  # after the last fork: the children need no HTTP server in their memory

        self.log.table(texts.SERVING, **self.options.facts)
        bare(f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.")
        self.api = Api(self.options, self.engine, self.faults, self.log)
        Server(self.sock, self.api).start()
        bare("INFO:     Application startup complete.")

    # Serving.

    def serve(self) -> None:
        """Passes tokens on until the engine is dead; raises Ordered."""
        while self.dead_at is None or time.monotonic() < self.dead_at:
            self.pump(self.dead_at)
        self.leave()

    def pump(self, end: float | None) -> None:
        """One wait, until something happens or `end` has come."""
        ends = [at for at in (end, self.stats_at) if at is not None]
        for source in self.wait(self.sources, min(ends) - time.monotonic() if ends else None):
            self.read_core(source)
        self.reap()
        if self.stats_at is not None and time.monotonic() >= self.stats_at:
            self.log_stats()

    def read_core(self, core: Wire) -> None:
        try:
            words = core.read()
        except Lost:
            self.log.table([texts.CORE_DIED])
            self.engine_died()
            return
        for word in words:
            if "dead" in word:
                self.engine_died()
            elif "outputs" in word:
                self.engine.report(word)
                if self.stats_at is None:
                    self.stats_at = time.monotonic() + self.sim.stats_interval_s

    def engine_died(self) -> None:
        """/health is 503 and every stream ends from now on; the exit follows in a moment."""
        self.sources.clear()
        self.output_failed()
        self.dead_at = time.monotonic() + self.sim.dead_s
        self.engine.die()

    def failed_request(self) -> None:
        """In a request's thread: a 500 ends the server before the watchdog does."""
        soon = time.monotonic() + AFTER_500_S
        self.dead_at = soon if self.dead_at is None else min(self.dead_at, soon)
        self.signals.wake()

    def log_stats(self) -> None:
        """vLLM's line of throughput: every ten seconds, until two in a row would be all zero (evidence 04)."""
        metrics = self.engine.metrics
        now = (metrics.counters["vllm:prompt_tokens"], metrics.counters["vllm:generation_tokens"])
        rates = tuple((now[at] - self.last_stats[at]) / self.sim.stats_interval_s for at in (0, 1))
        if any(rates) or any(self.rates):
            fields: dict[str, Any] = {"prompt": rates[0], "generation": rates[1]}
            fields["kv"] = metrics.gauges["vllm:kv_cache_usage_perc"]
            fields["running"] = int(metrics.gauges["vllm:num_requests_running"])
            fields["waiting"] = int(metrics.gauges["vllm:num_requests_waiting"])
            self.log.table([texts.STATS], **fields)
        self.stats_at = time.monotonic() + self.sim.stats_interval_s if any(rates) else None
        self.last_stats, self.rates = now, (rates[0], rates[1])

    # The end: both ways leave with status 0 (evidence 01, 02, 17a), whatever the reason was.

    def leave(self) -> None:
        """The exit after a dead engine."""
        self.last_answers()
        bare(texts.UVICORN_STOP)
        bare(f"INFO:     Finished server process [{os.getpid()}]")
        self.end_engine()

    def stop(self) -> None:
        """The exit after SIGTERM: at once, or with --shutdown-timeout once the running requests are done."""
        timeout_s = self.options.shutdown_timeout_s
        self.log.table(texts.STOP, mode="drain" if timeout_s else "abort", timeout=timeout_s)
        end = time.monotonic() + timeout_s
        while timeout_s and self.engine.in_flight and time.monotonic() < end and not self.engine.dead:
            self.pump(end)
        self.end_engine()
        if self.engine.die():
            self.output_failed()
        self.last_answers()
        self.log.table(texts.STOPPED)
        bare(texts.UVICORN_STOP)

    def output_failed(self) -> None:
        title = "AsyncLLM output_handler failed."
        self.log.failure("async_llm.py:906", title, texts.OUTPUT_FRAMES, texts.ENGINE_DEAD_ERROR)

    def last_answers(self) -> None:
        if self.api:
            self.api.drain(LAST_ANSWERS_S)

    def end_engine(self) -> None:
        """Ends the engine core, then kills what is left; the shared memory stays behind (evidence 17a)."""
        fields = {"core": self.core_pid, "worker": self.worker_pid, "worker_title": self.options.worker_title}
        self.log.table(texts.STOP_CLIENT, timeout=self.options.shutdown_timeout_s, **fields)
        if self.core_pid in self.children:
            os.kill(self.core_pid, signal.SIGTERM)
        self.wait([], TERMINATE_S)
        self.kill_children()
