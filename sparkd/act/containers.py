"""Ranks, whatever runs them: start them, stop them, remove them, end processes that outlived them."""

from __future__ import annotations

import signal

from sparkd import render
from sparkd.act.hands import ActionFailed, Hands, at_once
from sparkd.base.errors import DockerRefused, NodeRefused, SparkdError
from sparkd.model.action import KillProcesses, ProcessTarget, RemoveRanks, StartRanks, StopRanks, Target
from sparkd.model.failure_code import FailureCode
from sparkd.model.rank import RankSpec
from sparkd.runtimes.docker_refusals import reason
from sparkd.runtimes.runtime import Runtime

CODES = {"docker": FailureCode.DOCKER, "process": FailureCode.PROCESS}
"""Runtime -> why a rank of it could not be stopped or removed."""


async def start(hands: Hands, action: StartRanks) -> None:
    """Create and start these ranks at once. Raises ActionFailed with the runtime's reason as its code."""
    specs = render.rank_specs(hands.deployment, hands.cluster.nodes, hands.owner, action.generation)

    async def one(spec: RankSpec) -> None:
        secrets = {name: await hands.secret(name) for name in spec.secrets}
        await hands.runtimes[spec.node][spec.runtime].start(spec, secrets)

    def describe(spec: RankSpec, error: SparkdError) -> ActionFailed:
        if isinstance(error, ActionFailed):
            return error  # a secret's file is on the head, whatever node the rank is for
        why = error.why if isinstance(error, DockerRefused | NodeRefused) else str(error)
        return ActionFailed(why, reason(error), spec.node)

    await at_once([specs[rank] for rank in action.ranks], one, describe)


async def stop(hands: Hands, action: StopRanks) -> None:
    """SIGTERM, grace, SIGKILL; returns when none of them runs any more."""
    await at_once(action.targets, lambda one: _runtime(hands, one).stop(one.container, action.grace_s), _of_target)


async def remove(hands: Hands, action: RemoveRanks) -> None:
    await at_once(action.targets, lambda one: _runtime(hands, one).remove(one.container), _of_target)


def _runtime(hands: Hands, target: Target) -> Runtime:
    return hands.runtimes[target.node][target.runtime]


async def kill(hands: Hands, action: KillProcesses) -> None:
    """SIGKILL by identity: node, boot, pid and start ticks, checked on the node itself (rule 3)."""

    async def one(target: ProcessTarget) -> None:
        arguments = {
            "pid": target.pid,
            "start_ticks": target.start_ticks,
            "boot_id": target.boot_id,
            "pid1_ticks": target.pid1_ticks,
            "signal": int(signal.SIGKILL),
        }
        await hands.clients[target.node].call("signal", arguments, deadline_s=5.0)

    await at_once(action.targets, one, lambda target, error: ActionFailed(str(error), FailureCode.KILL, target.node))


def _of_target(target: Target, error: SparkdError) -> ActionFailed:
    return ActionFailed(str(error), CODES[target.runtime], target.node)
