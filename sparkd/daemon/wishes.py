"""What people ask of deployments -> intents that are written down, and how far each of them is."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkd.api import Conflict, Invalid, Operation, Unwritable
from sparkd.base import clock
from sparkd.fleet.ledger import Ledger
from sparkd.journal import JournalError
from sparkd.model.config import Deployment
from sparkd.model.decision import Intent
from sparkd.verbs import Verb, Wish, changed, progress, verbs

REMEMBERED = 200
"""Operations whose outcome can still be asked for."""


@dataclass(slots=True)
class Wishes:
    ledger: Ledger
    want: Callable[[str, Intent, str], Awaitable[None]]
    """Writes down what is wanted of a deployment by a verb, and has the loop look. Raises JournalError."""
    _wishes: dict[str, Wish] = field(default_factory=dict)

    async def operate(self, deployment: Deployment, verb: str, operation: Operation) -> str:
        """Write the wish down as the new intent; the loop does the rest. Raises Conflict, Invalid, Unwritable."""
        name, asked = deployment.name, verbs()[verb]
        named = {node for one in asked.takes if one.nodes for node in operation.options.get(one.key, ())}
        if strangers := sorted(named - set(deployment.nodes)):
            text = f"{', '.join(strangers)} is no node of {name}"
            raise Invalid(text, f"its nodes are {', '.join(deployment.nodes)}")
        # From the reading of what is wanted to its writing: of two wishes at once the later one began with what the earlier
        # one had not written yet, and a stop was lost beside a pause.
        async with self.ledger.wishing:
            generation = await self._write_down(name, asked, operation)
        wish = Wish(uuid.uuid4().hex[:12], name, verb, clock.now(), generation)
        self._wishes[wish.id] = wish
        while len(self._wishes) > REMEMBERED:
            self._wishes.pop(next(iter(self._wishes)))
        return wish.id

    async def _write_down(self, name: str, asked: Verb, operation: Operation) -> int:
        """Returns the generation of that moment."""
        before, state = self.ledger.intents[name], self.ledger.states[name]
        refused = asked.conflict(before, state)
        if refused is not None:
            raise Conflict(f"{name}: {refused[0]}", refused[1].format(name=name))
        self._must_have_a_file(name, asked)
        wanted = changed(before, asked, operation.options, operation.by, operation.message, clock.wall())
        try:
            await self.want(name, wanted, asked.name)
        except JournalError as error:
            text = f"the wish could not be written down, so nothing is done: {error}"
            raise Unwritable(text, "free the disk") from error
        return state.generation

    def _must_have_a_file(self, name: str, verb: Verb) -> None:
        """A start that a person asks for goes by the file; one that sparkd makes by itself goes by what it knows."""
        fileless = self.ledger.roster.fileless
        if not verb.starts or name not in fileless:
            return
        broken = fileless[name]
        if broken is None:
            raise Conflict(f"{name}: its file is gone", f"put it back, or end it for good: sparkd ctl stop {name}")
        raise Conflict(f"{name}: its file cannot be used: {broken.problems[0]}", "correct it, then: sparkd ctl reload")

    def operation(self, id: str) -> Mapping[str, Any] | None:
        """How far it is; None for one that is unknown or too long ago."""
        wish = self._wishes.get(id)
        if wish is None:
            return None
        state, intent = self.ledger.states.get(wish.deployment), self.ledger.intents.get(wish.deployment)
        stands, sentence = progress(wish, intent, state)
        known = {"operation": id, "deployment": wish.deployment, "verb": wish.verb}
        return {"schema": 1, **known, "state": stands, "sentence": sentence}
