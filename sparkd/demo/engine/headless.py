"""The parent of a headless rank: starts one worker, waits for its end, takes its time to stop (evidence 15, 17a)."""

from __future__ import annotations

import time

from . import process, shm, stages, texts, weights
from .front import Front, Ordered
from .log import bare, traceback
from .options import Options, Sim
from .stages import StageFailed
from .wire import Lost, Wire, pair
from .worker import Worker

# How vLLM spends the time after SIGTERM: five seconds of grace, then four until SIGKILL.
GRACE_SHARE = 5 / 9


class Headless(Front):
    """`vllm serve --headless`: never opens a port, never notices that its head is gone."""

    def __init__(self, options: Options, sim: Sim) -> None:
        super().__init__(options, sim, "MainProcess")
        self.files = shm.SharedFiles(sim.shm_dir)
        self.worker, self._worker_end = pair()

    def run(self) -> int:
        """The whole life of the process; returns its exit status."""
        try:
            self.stage("imports")
            self.say_what_is_told()
            error = weights.find(self.options.model)
            if error:
                bare("\n".join([*traceback(texts.MODEL_FRAMES), error]))
                return 1
            self.stage("config")
        except StageFailed as failed:
            bare(str(failed))
            return stages.exit_code(self.faults)
        except Ordered:
            return 0
        self.start_worker()
        try:
            return self.watch()
        except Ordered:
            return self.stop()

    def start_worker(self) -> None:
        self.log.table(texts.CONFIG, **self.options.facts)
        self.log.table(texts.HEADLESS, **self.options.facts)
        self.files.semaphore()
        self.children.append(process.fork(self.become_worker))
        self._worker_end.close()

    def become_worker(self) -> int:
        self.signals.close()
        self.worker.close()
        return Worker(self.options, self.sim, self._worker_end).run()

    def watch(self) -> int:
        """Waits for the worker's end: a failed start is status 1, a later death 0 (evidence 01). Raises Ordered."""
        loaded = False
        sources: list[Wire] = [self.worker]
        while self.children:
            for source in self.wait(sources):
                try:
                    loaded = loaded or any("loaded" in word for word in source.read())
                except Lost:
                    sources.clear()  # its exit status follows
            self.reap()
        if not loaded:
            bare("\n".join([*traceback(texts.MAIN_FRAMES), texts.WORKER_FAILED]))
            self.files.remove()
            return stages.exit_code(self.faults)
        lines = [texts.WORKER_DIED, texts.WAITING_FOR_WORKER, texts.WORKERS_EXITED]
        self.log.table(lines, rank=self.options.rank, count=1)
        return 0

    def stop(self) -> int:
        """SIGTERM: the worker never ends by itself, so this takes the whole grace and ends in SIGKILL."""
        self.log.table([texts.WAITING_FOR_WORKER], count=1)
        self.worker.close()
        grace_s = self.sim.stop_s * GRACE_SHARE
        if self.outlives(grace_s):
            self.log.table([texts.GRACE_OVER])
        if self.outlives(self.sim.stop_s - grace_s):
            self.log.table([texts.TERM_IGNORED])
            self.kill_children()
        return 0

    def outlives(self, seconds: float) -> bool:
        """Whether the worker is still there after `seconds`."""
        end = time.monotonic() + seconds
        while self.children and time.monotonic() < end:
            self.wait([], end - time.monotonic())
            self.reap()
        return bool(self.children)
