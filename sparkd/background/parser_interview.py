"""Deployments -> what their engines' own parsers say: asked in the background, once per engine, and kept on the disk.

A check is never made to wait for it: until an engine has answered, the table that ships judges.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup

from sparkd.background import parser_store
from sparkd.base import clock
from sparkd.base.errors import DockerError, HostError, NodeRefused
from sparkd.base.guarded import guarded
from sparkd.checks.shared.scene import Scene
from sparkd.decide.where_to_ask import quiet, where
from sparkd.engines import ENGINES
from sparkd.engines.flags import FlagTable, parse_table
from sparkd.engines.tables import Tables
from sparkd.model.config import Deployment
from sparkd.model.decision import State
from sparkd.model.engine_key import EngineKey
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import NodeView
from sparkd.observe import NodeAccess
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.interview import Interview, OfImages

log = structlog.get_logger("sparkd")

EVERY_S = 300.0
"""Between two looks whether an image has become another."""
RETRY_S = 3600.0
"""After an engine failed to answer; it would not answer a minute later either."""
AGAIN_S = 60.0
"""The same while a person or a script asks for the checks."""
KEY_S = 8.0
NOT_YET = "its own parser has not been asked yet"


@dataclass(frozen=True, slots=True)
class ParserAnswer:
    """What the engine's own parser says, or None and why that is not known."""

    table: FlagTable | None
    why: str = ""
    key: EngineKey | None = None
    """None where it is not known which engine that is."""

    @property
    def beside_image(self) -> str | None:
        """The key of the engine's table, where the image's id alone does not decide which engine it is."""
        return self.key.id if self.key is not None and self.key.stamp else None


@dataclass(slots=True)
class Asking:
    access: Mapping[str, NodeAccess]
    owner: str
    state: Path
    """The folder of sparkd's state."""
    answered: Callable[[str], None] = lambda deployment: None
    """Called with the name of a deployment whose engine has answered for the first time."""
    _tables: dict[EngineKey, FlagTable] | None = None
    _failed: dict[EngineKey, tuple[float, str]] = field(default_factory=dict)
    """When it is tried again, and what went wrong."""
    _lost: dict[str, str] = field(default_factory=dict)
    """Deployment -> why it is not known which Python runs its engine."""
    _next: dict[tuple[str, str], float] = field(default_factory=dict)
    """(deployment, its digest) -> when it is looked at again."""
    _swept: set[str] = field(default_factory=set)
    _node: str | None = None
    """Where an engine is being asked now."""
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _ended: anyio.Event = field(default_factory=anyio.Event)

    # ------------------------------------------------------------------------------------------------- what is known

    async def answer(self, deployment: Deployment) -> ParserAnswer:
        """The answer of the engine on the first node that has it. Costs an inspect; an unreachable node raises nothing."""
        if not self._askable(deployment):
            return ParserAnswer(None, "")
        known, why, first = await self._known(), "", None
        for node in deployment.nodes:
            try:
                interview = self._interview(deployment, node)
                if interview is None:
                    continue
                with anyio.fail_after(KEY_S):
                    key = await interview.key_of(deployment, self.owner)
            except (DockerError, HostError) as error:
                why = error.why
                continue
            except TimeoutError:
                why = f"no answer in {KEY_S:g} s"
                continue
            if key in known:
                return ParserAnswer(known[key], key=key)
            first = first or key
            if key in self._failed:
                why = self._failed[key][1]
        why = why or self._lost.get(deployment.name, "")
        return ParserAnswer(None, f"its own parser could not be asked: {why}" if why else NOT_YET, first)

    def tables(self) -> Tables:
        """What engines have said so far. An id is its content's, so there will only ever be more."""
        return Tables(parser_store.by_engine(self._tables or {}))

    def again(self) -> None:
        """A person wants to know: what could not be asked a while ago is tried again."""
        just_now = clock.now() + RETRY_S - AGAIN_S
        self._failed = {key: failed for key, failed in self._failed.items() if failed[0] > just_now}
        self._next.clear()

    def _askable(self, deployment: Deployment) -> bool:
        """Does the engine have a parser, and is there anywhere (not in the demo) a way to it?"""
        there = (self._interview(deployment, node) for node in deployment.nodes if node in self.access)
        return script(deployment.engine) is not None and any(there)

    def _interview(self, deployment: Deployment, node: str) -> Interview | None:
        access = self.access[node]
        if deployment.runtime == "process":
            return access.venvs
        if deployment.image is None or access.inside is None or access.throwaway is None:
            return None
        return OfImages(node, access.inside, access.throwaway)

    async def _known(self) -> dict[EngineKey, FlagTable]:
        if self._tables is None:
            self._tables = await anyio.to_thread.run_sync(parser_store.read, self.state)
        return self._tables

    # ------------------------------------------------------------------------------------------------- in the background

    def follow(
        self,
        group: TaskGroup,
        deployments: Iterable[Deployment],
        states: Mapping[str, State],
        seen: Mapping[str, NodeView],
    ) -> None:
        """Once a cycle: give way to a start, and otherwise ask an engine that was not asked yet."""
        all_of_them = list(deployments)
        free = quiet(all_of_them, states, seen)
        if self._node is not None:
            if self._node not in free:
                self._scope.cancel()
            return
        for node in sorted(free - self._swept):
            if seen[node].unread_for("docker") is None:
                self._begin(group, node, partial(self._sweep, node))
                return
        for one in all_of_them:
            place = where(one, free, seen)
            if place is not None and self._askable(one) and clock.now() >= self._next.get((one.name, one.digest), 0.0):
                self._begin(group, place, partial(self.ask, one, place))
                return

    def _begin(self, group: TaskGroup, node: str, work: Callable[[], Awaitable[None]]) -> None:
        self._node, self._scope, self._ended = node, anyio.CancelScope(), anyio.Event()
        group.start_soon(self._beside_the_loop, work)

    async def _beside_the_loop(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            with self._scope:
                await guarded(work, "asking an engine")
        finally:
            self._node = None
            self._ended.set()

    async def _sweep(self, node: str) -> None:
        """Once per life of sparkd, what the one before left behind."""
        throwaway = self.access[node].throwaway
        self._swept.add(node)
        if throwaway is not None:
            try:
                if left := await throwaway.sweep(self.owner):
                    log.info("removed what an earlier sparkd had left of asking an engine", node=node, containers=left)
            except (DockerError, HostError) as error:
                log.debug("not swept", node=node, why=error.why)

    async def aclose(self) -> None:
        """End what is being asked and wait until its container is gone."""
        if self._node is not None:
            self._scope.cancel()
            await self._ended.wait()

    # ------------------------------------------------------------------------------------------------------------- asking

    async def ask(self, deployment: Deployment, node: str) -> None:
        """Ask its engine on this node unless that is known. What goes wrong is remembered and told by `told`."""
        self._next[deployment.name, deployment.digest] = clock.now() + EVERY_S
        interview, asks = self._interview(deployment, node), script(deployment.engine)
        if asks is None or interview is None:
            return
        known = await self._known()
        try:
            located = await interview.locate(deployment, self.owner)
        except (DockerError, HostError) as error:
            self._lost[deployment.name] = error.why
            return
        self._lost.pop(deployment.name, None)
        failed = located is not None and clock.now() < self._failed.get(located.key, (0.0, ""))[0]
        if located is None or located.key in known or failed:
            return
        if (await self.answer(deployment)).table is not None:
            return  # another node's engine has answered: where it is asked is a matter of memory, and may change
        await self._run(interview, asks, located, deployment, node)

    async def _run(self, interview: Interview, asks: str, located: Located, deployment: Deployment, node: str) -> None:
        began = clock.now()
        self._swept.discard(node)  # its container may not have been removed, whether it answers or not
        try:
            text = await interview.run(located, asks, self.owner)
            table = parse_table(text, own=True)
        except (DockerError, HostError, ValueError) as error:
            if (
                isinstance(error, NodeRefused) and error.code is FailureCode.BUSY
            ):  # a `sparkd check` asks there: later, then
                return
            why = str(error) if isinstance(error, ValueError) else error.why
            self._failed[located.key] = clock.now() + RETRY_S, why
            log.warning("an engine's own parser could not be asked", deployment=deployment.name, node=node, why=why)
            return
        try:
            await anyio.to_thread.run_sync(parser_store.keep, self.state, located.key, text)
        except OSError as error:
            # Without room on the disk it counts until sparkd ends, and is asked again after that.
            log.warning("an engine's answer could not be kept", deployment=deployment.name, why=str(error))
        (await self._known())[located.key] = table
        log.info("asked an engine", deployment=deployment.name, node=node, seconds=round(clock.now() - began, 1))
        self.answered(deployment.name)


async def beside(asking: Asking, survey: Coroutine[object, object, Scene], deployment: Deployment) -> Scene:
    """What a survey sees, with what the engine's parser says, at once: a mute Docker costs its deadline once."""
    answers: list[ParserAnswer] = []

    async def ask() -> None:
        answers.append(await asking.answer(deployment))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        scene = await survey
    return replace(
        scene,
        parser=answers[0].table,
        unasked=answers[0].why,
        engine_id=answers[0].beside_image,
        tables=asking.tables(),
    )


@cache
def script(engine: str) -> str | None:
    """The program that prints an engine's parser; None where there is none."""
    known = ENGINES.get(engine)
    return None if known is None or known.parser_script is None else known.parser_script.read_text("utf-8")
