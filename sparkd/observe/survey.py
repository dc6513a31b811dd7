"""One deployment's nodes -> the Scene its checks look at: facts on every node at once, then what the checks ask of them.

Facts are read together, each under the deadline that the node service gives a single probe: one that hangs (a dead mount,
a mute nvidia-smi) costs its own answer and no other. What an image holds never changes, so it is remembered by image id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from sparkd import http
from sparkd.base import bounded_bytes, clock
from sparkd.base.errors import DockerError, DockerStopped, HostError, NodeRefused
from sparkd.base.unread import bounded
from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Answer, Ask, Changes, Check, Look, Place, Scene, Space, Text
from sparkd.facts import Fact, Question
from sparkd.facts.disks import DISKS
from sparkd.facts.paths import PATHS
from sparkd.model.failure_code import FailureCode
from sparkd.model.machine import DockerUnit
from sparkd.model.printed import Unread
from sparkd.model.snapshot import DOCKER_STOPPED, Unknown
from sparkd.observe.unknowns import NodeAccess

SURVEY_S = 8.0
"""For all facts of one node. Everything but a stuck probe answers within one second (`make bench`)."""
PAGE_S = 3.0
MAX_TEXT_BYTES = 1 << 20


@dataclass(slots=True)
class Surveyor:
    access: Mapping[str, NodeAccess]
    owner: str
    _in_images: dict[tuple[str, Ask], Answer] = field(default_factory=dict)
    """(image id, question without its node) -> answer."""

    async def survey(self, scene: Scene, checks: Sequence[Check]) -> Scene:
        """The scene with all facts and answers that these checks need. Never raises for what could not be read."""
        facts = {fact.name: fact for check in checks for fact in check.needs}
        found: dict[tuple[str, str], object] = {}

        async def look(node: str) -> None:
            found.update({(node, name): value for name, value in await self._facts(scene, node, facts.values())})

        async with anyio.create_task_group() as group:
            for node in scene.deployment.nodes:
                group.start_soon(look, node)
        scene = replace(scene, facts=found)
        return replace(scene, answers=await self._answers(run.asks(checks, scene), scene.cluster.paths.node_read_roots))

    # ------------------------------------------------------------------------------------------------------------ facts

    async def _facts(self, scene: Scene, node: str, facts: Iterable[Fact[object]]) -> list[tuple[str, object]]:
        asked = list(facts)
        found: list[tuple[str, object]] = []

        async def probes() -> None:
            found.extend(await self._probes(scene, node, [fact for fact in asked if fact.via == "node"]))

        async def told(fact: Fact[object]) -> None:
            found.append((fact.name, await self._told(scene, node, fact)))

        async with anyio.create_task_group() as group:
            group.start_soon(probes)
            for fact in asked:
                if fact.via == "docker":
                    group.start_soon(told, fact)
        return found

    async def _probes(self, scene: Scene, node: str, facts: list[Fact[object]]) -> list[tuple[str, object]]:
        if not facts:
            return []
        question = Question(scene.cluster, scene.deployment, node)
        try:
            client = self.access[node].client
            await client.greet()
            probed = await client.probe({fact.name: fact.args(question) for fact in facts}, SURVEY_S)
        except HostError as error:
            return [(fact.name, _unknown(error.why)) for fact in facts]
        return [
            (
                fact.name,
                await _parsed(fact, probed.texts[fact.name])
                if fact.name in probed.texts
                else _unknown(probed.errors[fact.name].why),
            )
            for fact in facts
        ]

    async def _told(self, scene: Scene, node: str, fact: Fact[object]) -> object:
        docker = scene.nodes[node].docker
        stopped = isinstance(docker, DockerUnit) and not docker.running
        try:
            inside = self.access[node].inside
            if scene.deployment.runtime != "docker" and (stopped or inside is None):
                return await _parsed(fact, "[]")  # ranks without containers, on a node without Docker, as in the demo
            if inside is None:
                return _unknown("there is no Docker here")
            args = fact.args(Question(scene.cluster, scene.deployment, node)) or {}
            return await _parsed(fact, await inside.tell(fact.name, args))
        except (DockerError, HostError) as error:
            return _unsaid(error)

    # ---------------------------------------------------------------------------------------------------------- answers

    async def _answers(self, asks: set[Ask], roots: Sequence[str]) -> dict[Ask, Answer]:
        """Every place of every node at once."""
        places: dict[tuple[str, Place], list[Ask]] = {}
        for ask in sorted(asks, key=lambda one: one.path):
            places.setdefault((ask.node, ask.place), []).append(ask)
        found: dict[Ask, Answer] = {}

        async def look(node: str, place: Place, here: list[Ask]) -> None:
            try:
                with anyio.fail_after(SURVEY_S):
                    found.update(await self._place(node, place, here, roots))
            except (DockerError, HostError) as error:
                found.update(dict.fromkeys(here, _unsaid(error)))
            except TimeoutError:
                found.update(dict.fromkeys(here, _unknown(f"no answer in {SURVEY_S:g} s")))

        async with anyio.create_task_group() as group:
            for (node, place), here in places.items():
                group.start_soon(look, node, place, here)
        return found

    async def _place(self, node: str, place: Place, asks: list[Ask], roots: Sequence[str]) -> dict[Ask, Answer]:
        if place.kind == "host":
            return await self._on_host(node, asks, roots)
        if place.kind == "api":
            return {ask: await _page(place.name, ask.path) for ask in asks}
        if place.kind == "image":
            return await self._in_image(node, place.name, asks)
        return await self._in_container(node, place.name, asks)

    async def _on_host(self, node: str, asks: list[Ask], roots: Sequence[str]) -> dict[Ask, Answer]:
        found: dict[Ask, Answer] = {}
        looks = [ask for ask in asks if isinstance(ask, Look)]
        if looks:
            name = PATHS.name
            probed = await self.access[node].client.probe({name: {"paths": [ask.path for ask in looks]}}, SURVEY_S)
            kinds = bounded(name, PATHS.parse, probed.texts.get(name, ""))
            why = probed.errors[name].why if name in probed.errors else "not answered"
            found.update(
                {
                    ask: _unknown(kinds.why) if isinstance(kinds, Unread) else kinds.get(ask.path, _unknown(why))
                    for ask in looks
                }
            )
        for ask in asks:
            if isinstance(ask, Text):
                found[ask] = await self._file(node, ask.path, roots)
            elif isinstance(ask, Space):
                found[ask] = await self._space(node, ask.path)
        return found

    async def _space(self, node: str, path: str) -> Answer:
        fact: Fact[Any] = DISKS
        probed = await self.access[node].client.probe({fact.name: {"paths": [path]}}, SURVEY_S)
        if fact.name in probed.errors:
            return _unknown(probed.errors[fact.name].why)
        read = await _parsed(fact, probed.texts[fact.name])
        return read if isinstance(read, Unknown) else probed.texts[fact.name]

    async def _file(self, node: str, path: str, roots: Sequence[str]) -> Answer:
        args = {"path": path, "max_bytes": MAX_TEXT_BYTES, "tail": False, "roots": list(roots)}
        try:
            return str((await self.access[node].client.call("read_file", args, SURVEY_S))["text"])
        except NodeRefused as refused:
            return None if refused.code is FailureCode.NOT_FOUND else _unknown(refused.why)

    async def _in_container(self, node: str, container: str, asks: list[Ask]) -> dict[Ask, Answer]:
        inside = self.access[node].inside
        if inside is None:
            return dict.fromkeys(asks, _unknown("there is no Docker here"))
        found: dict[Ask, Answer] = {}
        for ask in asks:
            if isinstance(ask, Changes):
                found[ask] = json.dumps(await inside.changes(container))
                continue
            read = inside.kind if isinstance(ask, Look) else inside.text
            found[ask] = await read(container, ask.path)
        return found

    async def _in_image(self, node: str, ref: str, asks: list[Ask]) -> dict[Ask, Answer]:
        inside = self.access[node].inside
        image = None if inside is None else await inside.image(ref)
        if inside is None or image is None:
            return dict.fromkeys(asks, _unknown(f"image {ref} is not there"))
        keys = {ask: (str(image["Id"]), replace(ask, node="")) for ask in asks}
        fresh = [ask for ask in asks if keys[ask] not in self._in_images]
        if fresh:
            async with inside.of_image(ref, self.owner) as container:
                for ask, answer in (await self._in_container(node, container, fresh)).items():
                    self._in_images[keys[ask]] = answer
        return {ask: self._in_images[keys[ask]] for ask in asks}


async def _page(base_url: str, path: str) -> Answer:
    status, _ = await http.page(base_url, path, PAGE_S)
    return str(status)


def _unknown(why: str) -> Unknown:
    return Unknown(why, clock.now())


def _unsaid(error: DockerError | HostError) -> Unknown:
    return (
        replace(_unknown(error.why), code=DOCKER_STOPPED) if isinstance(error, DockerStopped) else _unknown(error.why)
    )


async def _parsed(fact: Fact[object], text: str) -> object:
    value = await bounded_bytes.parsed(lambda said: bounded(fact.name, fact.parse, said), text)
    return _unknown(value.why) if isinstance(value, Unread) else value
