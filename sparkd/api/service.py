"""What the API asks of the daemon, and the refusals that the daemon may answer with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from sparkd.base.errors import SparkdError
from sparkd.journal import Event
from sparkd.model.view import ClusterView
from sparkd.reporting.copies import Shown
from sparkd.verbs import Options


class Refusal(SparkdError):
    """Why a request is not done, in one sentence, and what to do instead. `code` is stable, `status` is HTTP's."""

    code: ClassVar[str] = "failed"
    status: ClassVar[int] = 500

    def __init__(self, text: str, fix: str = "") -> None:
        self.text, self.fix = text, fix
        super().__init__(text)


class Invalid(Refusal):
    """The request itself makes no sense."""

    code, status = "usage", 400


class Forbidden(Refusal):
    """This listener does not do that."""

    code, status = "forbidden", 403


class NotFound(Refusal):
    """There is nothing of that name."""

    code, status = "not_found", 404


class Conflict(Refusal):
    """It makes no sense now, in the state things are in."""

    code, status = "conflict", 409


class Unwritable(Refusal):
    """What is wanted cannot be written down, so it is not done (rule 8)."""

    code, status = "unwritable", 503


class Unusable(Refusal):
    """A configuration that cannot be used: every problem on a line of its own. What was there before goes on."""

    code, status = "config", 422

    def __init__(self, problems: Sequence[object]) -> None:
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        listed = "\n".join(str(problem) for problem in problems)
        super().__init__(f"nothing was changed: {count} in the configuration\n{listed}", "sparkd config check")


class Unread(Refusal):
    """The configuration could not be read at all, through no fault of its own."""

    code, status = "unread", 503


class Busy(Refusal):
    """Too many are listening already."""

    code, status = "busy", 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is asked of one deployment, beside the verb. `by` is who: a user of this machine, or a token's holder."""

    message: str = ""
    by: str = ""
    options: Options = field(default_factory=dict)
    """What its verb takes; nothing else is in it."""


class Drifts(Protocol):
    """One deployment's drift and known-good records, as JSON objects. All of them may wait for nodes."""

    async def drift(self, against: str | None) -> Mapping[str, Any]:
        """A comparison made now. `against`: known-good, wanted, or the number of a generation. Raises NotFound, Conflict."""
        ...

    async def build(self) -> Mapping[str, Any]:
        """How the image was built, as its own file on each node says, and in what the nodes differ."""
        ...

    async def hashes(self) -> Mapping[str, Any]:
        """How far the nodes have hashed the model's weights; they go on with it while a client asks."""
        ...

    async def listing(self) -> Mapping[str, Any]:
        """What is recorded, without the ranks."""
        ...

    async def show(self, generation: int) -> Mapping[str, Any]:
        """One record whole: as text, and with the deployment file of that time. Raises NotFound."""
        ...

    async def apart(self, before: int, after: int) -> Mapping[str, Any]:
        """The differences between two records. Raises NotFound."""
        ...

    async def bless(self, generation: int | None, note: str) -> Mapping[str, Any]:
        """Pin a record; without a number what runs now is recorded first. Raises NotFound, Conflict, Unwritable."""
        ...


class Nodes(Protocol):
    """What is asked of nodes; their names are known ones. The answers are JSON objects."""

    async def maintain(self, node: str, for_s: float | None, by: str, message: str) -> Mapping[str, Any]:
        """Begin planned work on it. Raises Invalid and Unwritable."""
        ...

    async def end(self, node: str, by: str, message: str) -> Mapping[str, Any]:
        """End it. Raises Conflict and Unwritable."""
        ...

    def power(self, node: str) -> Mapping[str, Any]:
        """What a power cycle would do, and the last ones. Raises Conflict where there is no hook."""
        ...

    async def power_cycle(self, node: str, force: bool, by: str, message: str) -> Mapping[str, Any]:
        """Take its power and give it back, and wait for that. Raises Conflict and Unwritable."""
        ...


class Service(Protocol):
    """The daemon as the API sees it. Nothing here waits for a node; raised Refusals become answers."""

    @property
    def shown(self) -> Shown:
        """The status, made once for all who ask; its `view` is this service's."""
        ...

    def view(self) -> ClusterView:
        """All that is known now."""
        ...

    @property
    def nodes(self) -> Nodes:
        """What is asked of nodes."""
        ...

    async def operate(self, name: str, verb: str, operation: Operation) -> str:
        """Write down what is wanted; returns the operation's id. Raises Conflict, NotFound, Unwritable."""
        ...

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        """Read the configuration again; what became of it. Raises Unusable and Unread; then nothing was changed."""
        ...

    def operation(self, id: str) -> Mapping[str, Any] | None:
        """How an operation stands, or None when there is none of this id."""
        ...

    async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
        """Events in order: the last `limit`, or the first `limit` after `after_id`."""
        ...

    def outages(self, name: str | None) -> Mapping[str, Any]:
        """The JSON object of `ctl history --outages`, of one deployment or of all; called in a thread."""
        ...

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Server-sent events (`status` and `event`) as they come; ends for a listener that is too slow (see `Hub`)."""
        ...

    def logs(self, name: str, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        """Lines of every rank: `at`, `rank`, `node`, `stream`, `text`."""
        ...

    def checks(self, name: str) -> Mapping[str, Any]:
        """The JSON object of `ctl check`, as of the last run. Raises NotFound before the first."""
        ...

    async def check(self, name: str) -> Mapping[str, Any]:
        """Runs the checks now -> the same JSON object. Raises Conflict while nothing can be checked."""
        ...

    def drifts(self, name: str) -> Drifts:
        """What is asked about drift and known-good records of this deployment. Raises NotFound and Conflict."""
        ...

    async def cleanup(self, name: str, clean: bool) -> Mapping[str, Any]:
        """What a start would take away on each node, in bytes; asks the nodes, and changes nothing."""
        ...

    def captures(self, name: str) -> Path:
        """The folder with what was saved of its failed generations; it may not exist."""
        ...

    def why(self, name: str) -> Mapping[str, Any]:
        """The JSON object of `ctl why`."""
        ...
