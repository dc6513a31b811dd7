"""Of nodes, and not of deployments: when planned work is over, and whether a node is gone beyond doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkd.model.config import Deployment
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.power import POWER_EVERY_S, PowerUse
from sparkd.model.snapshot import NodeView, Snapshot, Unknown
from sparkd.model.upkeep import Maintenance, Upkeep

BOOTING = ("initializing", "starting", "stopping")
"""systemd has not finished. One that hangs in that counts as up after `policy.not_yet`."""
NETWORKS = ("lan", "fabric")


def over(work: Maintenance, view: NodeView | None, not_yet_s: float, now: float) -> str:
    """Why planned work is over, as a clause; empty while it goes on."""
    if now >= work.until:
        return "its time is over"
    if view is None or not isinstance(view.boot, Boot):
        return ""
    boot = view.boot
    anew = boot.identity != work.boot if work.boot else now - boot.up_s > work.since
    up = view.system not in BOOTING or boot.up_s > not_yet_s
    return "it has booted" if anew and up else ""


@dataclass(frozen=True, slots=True)
class Needed:
    """A deployment that is wanted up, and what is known of it."""

    deployment: Deployment
    state: State
    intent: Intent


def gone(node: str, snapshot: Snapshot, needed: Iterable[Needed]) -> bool:
    """Do SSH and pings on both networks agree that it is gone, does somebody need it, and does nothing contradict?

    A ping that could not be sent is no witness. Somebody who still reaches it contradicts, and so does an engine that answers
    with a rank there. A node that was shut down in good order is not silent (`Unknown.silent`): somebody wanted that.
    """
    view = snapshot.nodes.get(node)
    if view is None or not isinstance(view.boot, Unknown) or not view.boot.silent:
        return False
    echoes = snapshot.echoes.get(node, ())
    unheard = all(any(one.answered is False for one in echoes if one.network == network) for network in NETWORKS)
    here = [
        one for one in needed if node in one.deployment.nodes and one.intent.wanted == "up" and not one.intent.paused
    ]
    heard = any(echo.answered for echo in echoes) or any(_answers(one.state, view.boot.since) for one in here)
    return bool(here) and unheard and not heard


def _answers(state: State, since: float) -> bool:
    """Has it answered since the node fell silent?"""
    phase = state.before if state.phase is Phase.ADOPTING else state.phase
    watch = state.watch
    if phase is not Phase.SERVE or watch.canary_failing_since is not None:
        return False
    moments = (watch.tokens_at, None if watch.unsent else watch.canary_at)
    return any(at is not None and at > since for at in moments)


def agreed(
    before: Mapping[str, float], nodes: Iterable[str], snapshot: Snapshot, needed: Iterable[Needed], late: bool
) -> dict[str, float]:
    """Node -> since when it has been gone at every look; a look that sparkd missed itself begins all of them anew."""
    asked = tuple(needed)
    lost = [name for name in nodes if gone(name, snapshot, asked)]
    return {name: snapshot.at if late else before.get(name, snapshot.at) for name in lost}


def may_take_power(known: Upkeep, since: float | None, gone_after_s: float, now: float) -> bool:
    """Is it time for sparkd to use the node's power hook by itself? `since`: of `agreed`."""
    if not known.auto or known.maintenance is not None or since is None or now - since < gone_after_s:
        return False
    return again_at(known.uses, now) is None


def again_at(uses: tuple[PowerUse, ...], now: float) -> float | None:
    """When the hook may be used again; None: now. What failed counts too, since nobody knows what it did."""
    last = max((one.at for one in uses), default=None)
    return None if last is None or now - last >= POWER_EVERY_S else last + POWER_EVERY_S
