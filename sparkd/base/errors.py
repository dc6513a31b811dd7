"""The error tree. Errors stop at observe and act, where they become values; decide never raises.

SparkdError
├── ConfigError            configuration that cannot be used: every problem at once
├── HostError              a node could not be asked (unknown, never "dead")
│   ├── Unreachable        no connection, or it was lost
│   │   └── Silent         nothing came back at all: no refusal, no goodbye
│   ├── Late               the deadline passed
│   ├── HostKeyChanged     the node shows another key than the pinned one
│   ├── ProtocolMismatch   the node service speaks another protocol
│   ├── NotOwner           the node belongs to another sparkd
│   └── NodeRefused        the node service said no, with its reason
└── DockerError            the Docker API
    ├── DockerStopped      docker.service is not running (never woken by us)
    ├── DockerMute         it accepted and did not answer in time
    └── DockerRefused      it answered with an error status
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.base.one_line import clause
from sparkd.model.failure_code import FailureCode


class SparkdError(Exception):
    """Root of everything sparkd raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one place. `line` is 1-based, 0 where the whole file is meant; `fix` says what to write instead."""

    file: str
    line: int
    path: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.path, self.text) if part) + (
            f" ({self.fix})" if self.fix else ""
        )


class ConfigError(SparkdError):
    """Configuration that cannot be used; `problems` holds all of them, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class HostError(SparkdError):
    """A node could not be asked. `node` is its name, `why` one clause for people, whatever the node said."""

    def __init__(self, node: str, why: str) -> None:
        self.node, self.why = node, clause(why)
        super().__init__(f"{node}: {self.why}")


class Unreachable(HostError):
    """No connection to the node, or it was lost."""


class Silent(Unreachable):
    """Nothing came back: no answer, no refusal, no goodbye. A node that is switched off or frozen is like that."""


class Late(HostError):
    """The node did not answer within its deadline."""


class HostKeyChanged(HostError):
    """The node shows another host key than the pinned one."""


class ProtocolMismatch(HostError):
    """The node service speaks a protocol this sparkd does not."""


class NotOwner(HostError):
    """The node remembers another owner."""


class NodeRefused(HostError):
    """The node service refused a verb; `code` is its machine-readable reason."""

    def __init__(self, node: str, why: str, code: FailureCode) -> None:
        super().__init__(node, why)
        self.code = code


class DockerError(SparkdError):
    """The Docker API on `node`; `why` one clause for people, whatever Docker said."""

    def __init__(self, node: str, why: str) -> None:
        self.node, self.why = node, clause(why)
        super().__init__(f"docker on {node}: {self.why}")


class DockerStopped(DockerError):
    """docker.service is not running on the node. Nobody dials it then: a connection would wake it."""


class DockerMute(DockerError):
    """Docker accepted the connection and did not answer in time (moby/moby#28889)."""


class DockerRefused(DockerError):
    """Docker answered with an error; `status` is the HTTP status."""

    def __init__(self, node: str, why: str, status: int) -> None:
        super().__init__(node, why)
        self.status = status
