"""The engine core process of rank 0: schedules requests from the API server, one step of the workers at a time."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from . import process, shm, stages, texts
from .faults import Faults
from .log import Log, bare
from .options import Options, Sim
from .schedule import Request, Schedule
from .stages import StageFailed, readable
from .wire import Lost, Wire, pair
from .worker import Worker

LOOK_AGAIN_S = 0.2


class ApiGone(Exception):
    """The API server's end of the wire is closed."""


class EngineCore:
    """The child the API server starts; `api` leads there."""

    def __init__(self, options: Options, sim: Sim, api: Wire) -> None:
        self.options = options
        self.sim = sim
        self.api = api
        self.faults = Faults(sim.faults, options.rank)
        self.log = Log("EngineCore")
        self.files = shm.SharedFiles(sim.shm_dir)
        capacity = options.max_num_seqs * options.max_model_len
        self.schedule = Schedule(options.max_num_seqs, capacity, options.draft_tokens)
        self.worker, self._worker_end = pair()
        self.step_started: float | None = None
        self.hints = 0
        self.promised = False
        self.next_step = 0.0

    def run(self) -> int:
        """The whole life of the process; returns its exit status."""
        signal.signal(signal.SIGTERM, self._terminated)
        process.spawn_title()
        try:
            self.start()
            return self.serve()
        except StageFailed as failed:
            return self.start_failed(str(failed))
        except Lost:
            self.log.table([texts.WAITING_FOR_WORKER], count=1)
            process.reap()
            self.log.table([texts.WORKERS_EXITED])
            return self.start_failed(texts.WORKER_FAILED)
        except ApiGone:
            return 0

    # Start.

    def start(self) -> None:
        """From the first import to a loaded worker; raises StageFailed, ApiGone, or Lost when the worker ended."""
        began = time.monotonic()
        if readable([self.api], stages.duration_s("core", self.sim, self.faults)):
            self.read_api()
        process.set_title("VLLM::EngineCore")
        self.log.table(texts.CORE, **self.options.facts)
        self.files.segment(shm.REQUEST_QUEUE_BYTES)
        self.files.semaphore()
        pid = process.fork(self.become_worker)
        self._worker_end.close()
        self.tell_api({"worker": pid})
        while not self.worker_loaded():
            continue
        if self.options.rank > 0:
            raise StageFailed(texts.FOLLOWER)
        self.log.table(texts.CORE_READY, seconds=time.monotonic() - began, **self.options.facts)
        self.tell_api({"ready": True})

    def become_worker(self) -> int:
        self.api.close()
        self.worker.close()
        return Worker(self.options, self.sim, self._worker_end).run()

    def worker_loaded(self) -> bool:
        """Waits for a word of the worker; raises Lost when it ended, ApiGone when the API server did."""
        ready = readable([self.api, self.worker])
        if self.api in ready:
            self.read_api()
        return self.worker in ready and any("loaded" in word for word in self.worker.read())

    def start_failed(self, error: str) -> int:
        """The engine core's half of a failed start; the shared memory goes, as after every clean failure."""
        self.log.failure("core.py:1510", "EngineCore failed to start.", texts.CORE_INIT_FRAMES, error)
        bare(f"Process EngineCore:\nTraceback (most recent call last):\n{error}")
        self.files.remove()
        return 1

    # Serving.

    def serve(self) -> int:
        """Steps while there is work, sleeps while there is none; returns after a fatal error."""
        while True:
            ready = readable([self.api, self.worker], self.patience_s())
            if self.api in ready:
                self.read_api()
            if self.worker in ready:
                error = self.read_worker()
                if error:
                    return self.fatal(error)
            if self.step_started is not None:
                if self.step_overdue():
                    return self.fatal(texts.RPC_TIMEOUT)
            elif self.may_step():
                self.begin_step()

    def patience_s(self) -> float | None:
        """How long nothing has to be done; None while there is no work at all."""
        now = time.monotonic()
        if self.step_started is not None:
            hint = self.step_started + (self.hints + 1) * self.sim.hint_interval_s
            return min(hint, self.step_started + self.sim.rpc_timeout_s) - now
        if self.schedule.idle:
            return None
        return max(self.next_step - now, LOOK_AGAIN_S if self.held_back() else 0.0)

    def held_back(self) -> bool:
        return bool(self.faults.now().get("hang_requests"))

    def may_step(self) -> bool:
        return not self.schedule.idle and time.monotonic() >= self.next_step and not self.held_back()

    def begin_step(self) -> None:
        now = time.monotonic()
        pace = self.faults.now().get("slow_tokens")
        self.next_step = now + (float(pace) if pace else 1.0 / self.sim.rate)
        self.step_started, self.hints = now, 0
        plan = self.schedule.plan()
        self.promised = plan["more"]
        try:
            self.worker.send(plan)
        except Lost:
            return  # the read that follows finds the worker's end

    def step_overdue(self) -> bool:
        """Says every minute that a step hangs (evidence 04: the earliest sign, only INFO); True at the RPC time-out."""
        waited = time.monotonic() - (self.step_started or 0.0)
        if waited >= (self.hints + 1) * self.sim.hint_interval_s:
            self.hints += 1
            self.log.line("INFO", "shm_broadcast.py:871", texts.HANG_HINT.format(self.sim.hint_interval_s))
        return waited >= self.sim.rpc_timeout_s

    def read_worker(self) -> str | None:
        """Takes the worker's answers; returns the error that ends the engine, None otherwise."""
        try:
            words = self.worker.read()
        except Lost:
            process.reap()
            self.log.table([texts.WORKER_DIED], rank=self.options.rank)
            return "RuntimeError: Executor failed."
        for word in words:
            if "error" in word:
                return str(texts.STEP_FAILED.format(word["error"]))
            self.step_started = None
            self.tell_api(self.schedule.finish())
            self.tell_idle()
        return None

    def read_api(self) -> None:
        """Takes requests and aborts; raises ApiGone."""
        try:
            words = self.api.read()
        except Lost as lost:
            raise ApiGone from lost
        for word in words:
            if "abort" in word:
                self.schedule.abort(word["abort"])
                self.tell_idle()
            else:
                self.schedule.add(Request(**word))

    def tell_api(self, value: dict[str, Any]) -> None:
        """Sends to the API server; raises ApiGone."""
        try:
            self.api.send(value)
        except Lost as lost:
            raise ApiGone from lost

    def tell_idle(self) -> None:
        """Tells the peers that the step they were promised does not follow: its requests were aborted."""
        if not self.promised or self.step_started is not None or not self.schedule.idle:
            return
        self.promised = False
        try:
            self.worker.send({"idle": True})
        except Lost:
            return  # the next read finds the worker's end

    def fatal(self, error: str) -> int:
        """Ends the engine as vLLM does: the front end learns it at once, this process waits to be killed."""
        version = f"V1 LLM engine (v0.32.0) with config: model='{self.options.model}'"
        self.log.line("ERROR", "dump_input.py:72", f"Dumping input data for {version}")
        running, waiting = len(self.schedule.running), len(self.schedule.waiting)
        stats = f"SchedulerStats(num_running_reqs={running}, num_waiting_reqs={waiting})"
        self.log.line("ERROR", "dump_input.py:81", f"Dumping scheduler stats: {stats}")
        self.log.failure(texts.FATAL, "EngineCore encountered a fatal error.", texts.CORE_STEP_FRAMES, error)
        self.tell_api({"dead": True})
        self.log.table([texts.WAITING_FOR_WORKER], count=1)
        self.worker.close()
        while True:
            try:
                self.api.read()
            except Lost:
                return 1

    def _terminated(self, _number: int, _frame: Any) -> None:
        self.log.line("INFO", "core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        os._exit(0)
