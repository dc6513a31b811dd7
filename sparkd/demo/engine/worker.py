"""The process that computes: forms the group, loads, then takes part in one step per token with every other rank."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Any

from . import process, rendezvous, shm, stages, texts, weights
from .faults import Faults
from .log import Log
from .options import Options, Sim
from .rendezvous import Group
from .stages import StageFailed, readable
from .wire import Lost, Wire

FREEZE_LOOK_S = 0.2


class PeerLost(Exception):
    """A peer's connection ended during a collective; the text is gloo's."""


class Worker:
    """One rank's worker. It reports to its parent over `parent` and takes no signals but SIGKILL and SIGSTOP."""

    def __init__(self, options: Options, sim: Sim, parent: Wire) -> None:
        self.options = options
        self.sim = sim
        self.parent = parent
        self.faults = Faults(sim.faults, options.rank)
        self.log = Log("Worker")
        self.files = shm.SharedFiles(sim.shm_dir)
        self.group = Group()

    def run(self) -> int:
        """The whole life of the process; returns its exit status."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        process.spawn_title()
        try:
            self.load()
        except StageFailed as failed:
            return self.start_failed(str(failed))
        except PeerLost as lost:
            return self.start_failed(f"RuntimeError: {lost}")
        except Lost:
            return 1  # the parent ended during the start
        if self.options.rank == 0:
            return self.lead()
        return self.follow()

    def start_failed(self, error: str) -> int:
        self.log.failure(texts.WORKER_START, "WorkerProc failed to start.", texts.WORKER_INIT_FRAMES, error)
        self.files.remove()
        return 1

    def load(self) -> None:
        """From the first import to a loaded model; raises StageFailed or PeerLost."""
        facts = self.options.facts
        self.stage("group")
        process.set_title("VLLM::Worker")
        self.log.table(texts.JOINING, **facts)
        if self.options.rank == 0:
            self.group = rendezvous.lead(self.options, self.parent, self.options.rendezvous_timeout_s)
        else:
            self.group = rendezvous.join(self.options)
        self.log.table(texts.JOINED, **facts)
        process.set_title(self.options.worker_title)
        self.log.role = self.options.worker_title.replace("VLLM::", "")
        self.log.table(texts.LOADING, **facts)
        started = time.monotonic()
        self.stage("weights")
        error = weights.check(self.options.model)
        if error:
            raise StageFailed(error)
        self.log.table(texts.LOADED, seconds=time.monotonic() - started)
        self.barrier()
        self.caches()

    def caches(self) -> None:
        """The last part of the start; a peer that never gets here leaves rank 0 waiting (evidence 06)."""
        if self.options.rank == 0:
            self.files.segment(shm.REPLY_QUEUE_BYTES)
            self.await_peers()
            self.stage("kvcache")
        elif self.options.headless:
            self.answer_head()
        if self.options.rank == 0 or self.options.headless:
            self.log.table(texts.KV_CACHE)
        self.parent.send({"loaded": True})

    def barrier(self) -> None:
        """All ranks meet once the weights are loaded; raises PeerLost when one of them is gone (evidence 13b, 13c)."""
        if self.options.rank == 0:
            self.collective({"barrier": True})
        else:
            self.answer_head()

    def answer_head(self) -> None:
        """A peer's part of a collective during the start; raises PeerLost."""
        try:
            self.group.fabric[0].next()
            self.group.fabric[0].send({"done": True})
        except Lost as lost:
            raise self.peer_lost(self.group.fabric[0], lost) from lost

    def await_peers(self) -> None:
        """The next collective, where a lost peer means waiting for ever: nothing bounds it in vLLM (evidence 06)."""
        try:
            self.collective({"caches": True})
        except PeerLost:
            self.parent.next()  # nothing comes but the parent's end

    def stage(self, name: str) -> None:
        """Spends a stage's time; raises StageFailed, or Lost when the parent ends meanwhile."""
        if readable([self.parent], stages.duration_s(name, self.sim, self.faults)):
            self.parent.read()

    # Rank 0: one step at the engine core's word.

    def lead(self) -> int:
        """Answers each step of the engine core once every peer has done its part; ends with the engine core."""
        while True:
            try:
                step = self.parent.next()
                self.freeze()
                self.parent.send(self.lead_step(step))
            except Lost:
                self.log.line("INFO", texts.EXECUTOR + ":843", "Parent process exited, terminating worker queues")
                readable([], 2.0)  # the API server kills what is left; an orphan must not stay for ever
                return 0

    def lead_step(self, step: dict[str, Any]) -> dict[str, Any]:
        """One step; the answer says "done" or carries the error of a lost peer."""
        try:
            self.collective(step)
        except PeerLost as error:
            self.hit(texts.ALL_REDUCE_FRAMES, f"RuntimeError: {error}")
            return {"error": str(error)}
        return {"done": True}

    def collective(self, message: dict[str, Any]) -> None:
        """Sends to every peer and waits, without limit, for all answers; raises PeerLost. `idle` asks for no answer."""
        waiting: list[Wire] = []
        for wire in self.group.fabric.values():
            try:
                wire.send(message)
            except Lost as lost:
                raise self.peer_lost(wire, lost) from lost
            if "idle" not in message:
                waiting.append(wire)
        while waiting:
            for source in readable([self.parent, *waiting]):
                if source is self.parent:
                    self.parent.read()
                    continue
                try:
                    source.read()
                except Lost as lost:
                    raise self.peer_lost(source, lost) from lost
                waiting.remove(source)

    # Every other rank: one step at rank 0's word.

    def follow(self) -> int:
        """Takes part in steps until killed. Losing the head ends nothing: the rank stays as a widow (evidence 03)."""
        head = self.group.fabric[0]
        busy = False
        sources: list[Wire] = [self.parent, head]
        while sources:
            for source in readable(sources):
                try:
                    values = source.read()
                except Lost as lost:
                    sources.remove(source)
                    self.follow_lost(source, lost, busy)
                    continue
                for step in values:
                    self.freeze()
                    busy = self.fits(step) and bool(step.get("more"))
        signal.pause()
        return 0

    def follow_lost(self, source: Wire, lost: Lost, busy: bool) -> None:
        """Says what vLLM says: one traceback when a step was in flight, nothing when the head went away idle."""
        if source is self.parent:
            self.log.line("INFO", texts.EXECUTOR + ":843", "Parent process exited, terminating worker queues")
        elif busy:
            self.hit(texts.ALL_REDUCE_FRAMES, f"RuntimeError: {self.peer_lost(source, lost)}")

    def fits(self, step: dict[str, Any]) -> bool:
        """Does its part of a step; False, with a traceback and no answer, when its limits are smaller (evidence 12)."""
        if "idle" in step:
            return True
        failure = overflow(step, self.options.max_num_seqs, self.options.max_model_len)
        if failure:
            frames, error = failure
            self.hit(frames, error)
            return False
        try:
            self.group.fabric[0].send({"done": True})
        except Lost:
            return True  # the read that follows says how the head went away
        return True

    def hit(self, frames: Sequence[str], error: str) -> None:
        """An exception in a step, which the worker survives."""
        self.log.failure(texts.WORKER_HIT, "WorkerProc hit an exception.", frames, error)

    def freeze(self) -> None:
        """Stands still while the control file says so."""
        while self.faults.now().get("freeze"):
            readable([], FREEZE_LOOK_S)

    def peer_lost(self, wire: Wire, lost: Lost) -> PeerLost:
        return PeerLost((texts.GLOO_RESET if lost.reset else texts.GLOO_CLOSED).format(*wire.peer))


def overflow(step: dict[str, Any], max_num_seqs: int, max_model_len: int) -> tuple[tuple[str, ...], str] | None:
    """The exception a step raises in a rank with these limits, None when it fits.

    vLLM keeps all rows in one table of max_num_seqs x max_model_len, so a row that grows too long runs into the
    next one, and only the end of the table is an error (evidence 12a).
    """
    rows = step["rows"]
    if len(rows) > max_num_seqs:
        return texts.ADD_REQUEST_FRAMES, "AssertionError"
    longest = max(step.get("new", []), default=0)
    if longest > max_model_len:
        shapes = f"could not broadcast input array from shape ({longest},) into shape ({max_model_len},)"
        return texts.ADD_REQUEST_FRAMES[:-1], f"ValueError: {shapes}"
    table = max_num_seqs * max_model_len
    if any(row * max_model_len + length > table for row, length in enumerate(rows)):
        return texts.PREPARE_FRAMES, "IndexError: index out of range in self"
    return None
