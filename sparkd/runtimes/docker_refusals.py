"""Docker's error texts -> a machine-readable code and one clause that says what is wrong on the node."""

from __future__ import annotations

import re
from typing import NamedTuple

from sparkd.base.errors import DockerRefused, NodeRefused, SparkdError
from sparkd.model.failure_code import FailureCode


class Rule(NamedTuple):
    """`why` may use the groups of `pattern`."""

    code: FailureCode
    pattern: re.Pattern[str]
    why: str


def _rule(code: FailureCode, pattern: str, why: str) -> Rule:
    return Rule(code, re.compile(pattern, re.IGNORECASE), why)


RULES = (
    _rule(FailureCode.IMAGE_MISSING, r"no such image: (\S+)", r"image \1 is not on this node"),
    _rule(FailureCode.MOUNT_MISSING, r"bind source path does not exist: (.+)", r"mount source \1 does not exist"),
    _rule(
        FailureCode.MOUNT_MISSING,
        r"error while creating mount source path '([^']+)'",
        r"mount source \1 does not exist",
    ),
    _rule(FailureCode.MOUNT_MISSING, r'error mounting "([^"]+)" to rootfs', r"mount source \1 cannot be mounted"),
    _rule(
        FailureCode.NAME_TAKEN,
        r'container name "/?([^"]+)" is already in use by container "?(\w{12})?\w*',
        r"the name \1 is taken by container \2",
    ),
    _rule(FailureCode.PORT, r"port is already allocated|address already in use", "a port it publishes is taken"),
    _rule(
        FailureCode.GPU,
        r"could not select device driver .*gpu",
        "Docker has no GPU runtime: set up nvidia-container-toolkit",
    ),
    _rule(FailureCode.GPU, r"unresolvable CDI devices (.+?)(?:: unknown)?$", r"CDI does not know \1"),
    _rule(FailureCode.GPU, r"nvidia-container-cli: (.+?)(?:: unknown)?$", r"the GPU cannot be used: \1"),
    _rule(FailureCode.DEVICE_MISSING, r'adding custom device "([^"]+)"', r"device \1 does not exist"),
)
"""The first that matches counts. Tested against Docker 20.10, but for ports, CDI and nvidia-container-cli: those
texts are from public reports. A missing program is not among them: under `Init` the rank starts, and exits 127."""


def explain(message: str) -> tuple[FailureCode, str]:
    """-> code, why. A text that no rule knows is passed on in one line."""
    for rule in RULES:
        if found := rule.pattern.search(message):
            return rule.code, found.expand(rule.why)
    return FailureCode.OTHER, " ".join(message.split())[:300]


class Refused(DockerRefused):
    """`code` is one of the codes in RULES, or OTHER."""

    def __init__(self, node: str, message: str, status: int) -> None:
        self.code, why = explain(message)
        super().__init__(node, why, status)


def reason(error: SparkdError) -> FailureCode:
    """Docker's reason, or the node service's own code; OTHER where it was no refusal."""
    return error.code if isinstance(error, Refused | NodeRefused) else FailureCode.OTHER
