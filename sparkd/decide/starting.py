"""Before anything starts: the prechecks, the cleanup, and the number of the new generation."""

from __future__ import annotations

from sparkd.decide import budget, needs, stages, strays
from sparkd.decide.case import Case, decide, names, waiting_for_unread
from sparkd.decide.failing import back_off, hold_for_budget
from sparkd.decide.group import boots, shutting_down, young
from sparkd.decide.holds import hold
from sparkd.decide.memory_gate import gate
from sparkd.decide.memory_need import available
from sparkd.decide.prechecks import prechecks
from sparkd.decide.teardown import teardown
from sparkd.model.action import CleanNodes, KillProcesses
from sparkd.model.decision import Cause, Decision, FailureClass, Phase, Watch

FOREIGN = {"docker": ("container", "docker rm"), "process": ("unit", "systemctl stop")}
"""Runtime -> what blocks a name there, and the command that takes it away."""
PORT_PATIENCE_S = 15.0
"""A listener may outlive its process's container by a moment; after this time another process holds the port."""


def precheck(case: Case) -> Decision:
    """Everything that can be known before touching anything."""
    case = case.anew()
    waiting = _nodes_not_ready(case)
    if waiting is not None:
        return waiting
    lacking = _sources(case) or prechecks(case)
    if lacking is not None:
        return lacking
    return _used_up(case) or decide(case.enter(Phase.CLEANUP, cleaned=0), "prechecks passed", "cleanup")


def _used_up(case: Case) -> Decision | None:
    """The budget of automatic starts: of the day, then a person looks first; of the hour, then the start waits."""
    if not case.automatic:
        return None
    if spent := budget.spent_today(case.policy.budget, case.state.starts, case.now):
        return hold_for_budget(case, case.state, spent)
    if budget.spent(case.policy.budget, case.state.starts, case.now) is None:
        return None
    return back_off(case, case.state, "not starting", "budget-pause", 0.0)


def _nodes_not_ready(case: Case) -> Decision | None:
    if case.group.lost:
        return decide(case.state, f"waiting for {names(sorted(case.group.lost))}, declared lost", "node-lost")
    waiting = waiting_for_unread(case, "before starting")
    if waiting is not None:
        return waiting
    stopping = shutting_down(case.group)
    if stopping:
        return decide(case.state, f"waiting: {names(stopping)} is shutting down", "node-stopping")
    return None


def _sources(case: Case) -> Decision | None:
    """Images and mount sources that are not there: *not yet* shortly after a boot, held with the fact later."""
    lacking = needs.missing(case)
    for one in lacking:
        if not young(case.group.views[one.node], case.policy.not_yet):
            return hold(case, case.state, FailureClass.PERMANENT, one.fact, one.text, one.fix)
    for one in lacking:
        said = f"waiting: {one.text}, not yet (the node booted recently)"
        return decide(case.state, said, f"not-yet-{one.kind}")
    unasked = needs.unasked(case)
    if unasked:
        where = "; ".join(f"{node} ({why})" for node, why in unasked.items())
        return decide(case.state, f"looking for the image and the mounts on {where}", "precheck")
    return None


def cleanup(case: Case) -> Decision:
    """Verified gone everywhere, names and ports free, memory given back: only then a new generation begins."""
    down = teardown(case, "cleaning up") or teardown(case.anew(), "cleaning up")
    if down is not None:
        return down
    case = case.anew()
    not_ready = _nodes_not_ready(case)
    if not_ready is not None:
        return not_ready
    for node, container in case.group.foreign:
        what, remove = FOREIGN[container.runtime]
        text = f"a {what} named {container.name} on {node} is not ours"
        fix = f"remove or rename it: {remove} {container.name}"
        return hold(case, case.state, FailureClass.PERMANENT, f"name:{node}:{container.name}", text, fix)
    occupied = _left_alone(case) or _ports(case)
    if occupied is not None:
        return occupied
    generation = max(case.state.generation, case.state.highest) + 1
    if case.state.cleaned != generation:
        return _clean(case, generation)
    return gate(case) or _used_up(case) or begin(case, generation)


def _clean(case: Case, generation: int) -> Decision:
    clean = case.intent.clean if case.intent.clean > case.state.clean_done else 0
    swapoff = case.snapshot.cleanup.swapoff
    action = CleanNodes(tuple(case.group.views), generation, drop_caches=True, swapoff=swapoff, clean=clean)
    doing = "emptying its cache folders, " if clean else ""
    said = f"cleaning up: {doing}dropping caches and unused shared memory"
    return decide(case.state, said, "clean-nodes", [action])


def _left_alone(case: Case) -> Decision | None:
    """Processes of ours that outlived their rank, where `remove_strays: never` leaves them to a person."""
    for one in case.group.leftovers:
        text = f"{one.title or 'a process'} (pid {one.pid}) of an earlier generation is left on {one.node}"
        fix = f"on {one.node}: kill -9 {one.pid}, or allow it to sparkd with `cleanup: {{remove_strays: own}}`"
        return hold(case, case.state, FailureClass.RESOURCE, f"stray:{one.node}:{one.pid}", text, fix)
    return None


def _ports(case: Case) -> Decision | None:
    """Wait a moment for a listener that is going, hold for one that stays, wait for sockets that cannot be read."""
    taken = needs.port_taken(case)
    if taken is None:
        return None
    said = f"cleaning up: waiting, for {taken.text}"
    if not taken.known:
        return decide(case.state, said, "port-unknown")
    view = case.group.views[taken.node]
    held = strays.holder(view, taken.pid, taken.port, case.snapshot.owner)
    if held is not None and strays.may_end(held, case.deployment.name, case.snapshot.cleanup.remove_strays):
        ending = strays.target(held.process, view)
        doing = f"cleaning up: ending {held.words} on {taken.node}, which holds port {taken.port}"
        return decide(case.state, doing, "stray-holder", [KillProcesses((ending,))] if ending is not None else [])
    if case.state.reason != "port-wait":
        return decide(case.enter(Phase.CLEANUP), said, "port-wait")
    if case.now - case.state.since < PORT_PATIENCE_S:
        return decide(case.state, said, "port-wait")
    text, fix = taken.text, f"ss -ltnp 'sport = :{taken.port}' names the holder; stop it"
    if held is not None:
        allowed = case.snapshot.cleanup.remove_strays
        text = f"the {taken.what} port {taken.port} on {taken.node} is held by {held.words}"
        fix = strays.remedy(held, view, case.deployment.name, allowed)
    fact = f"port:{taken.node}:{taken.port}"
    return hold(case, case.state, FailureClass.RESOURCE, fact, text, f"on {taken.node}: {fix}" if fix else "")


def begin(case: Case, generation: int) -> Decision:
    """Number the new generation. The state is persisted before any action, so the number is written first (rule 4)."""
    cause = case.state.cause or Cause.BOOT
    spent = (case.now,) if case.automatic else ()
    state = case.enter(
        case.stages[0][0],
        generation=generation,
        cause=cause,
        started_at=case.now,
        starts=(*budget.counted(case.policy.budget, case.state.starts, case.now), *spent),
        ranks_started=(),
        memory_before=available(case.group.views),
        boots=boots(case.group),
        stage="ranks",
        stages=(("ranks", case.now),),
        watch=Watch(),
        launch=stages.launch(case),
        digest=case.deployment.digest,
        started=case.deployment,
        images=tuple(needs.images(case).items()),
        retry_at=None,
        hold=None,
    )
    where = names(case.group.views)
    ports = " and ".join(str(use.port) for use in case.engine.ports(case.deployment))
    gone = f"verified on {where}: no container and no process of an earlier generation, ports {ports} free"
    sentence = f"starting generation {generation} ({cause.value})"
    return decide(state, sentence, "begin", events=[("gone", gone), ("starting", sentence)])
