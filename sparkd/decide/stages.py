"""How far a start has come: its stage, whether that takes longer than it ever did, and what is learned of it in the end."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import movement
from sparkd.decide.case import Case, duration
from sparkd.model import start_times
from sparkd.model.decision import State
from sparkd.model.launch import Launch
from sparkd.model.start_times import Overdue
from sparkd.model.view import stage_seconds

UNSEEN = "and no earlier start says how long that takes"


def warm(case: Case, digest: str) -> bool:
    """Are the caches of this configuration warm? Not until it has served once (DESIGN 6), nor after they were emptied."""
    return case.state.warm_digest != "" and case.state.warm_digest == digest


def launch(case: Case) -> Launch:
    """Of the start that is about to begin."""
    return Launch(profile=case.intent.profile or case.deployment.profile or "", warm=warm(case, case.deployment.digest))


def tracked(case: Case) -> Case:
    """With the stage and the movements that this look shows.

    A stage never goes back: lines scroll out of the part of the log that is read, and titles say less than lines.
    """
    state = replace(case.state, launch=movement.followed(case, case.state.launch))
    stage = case.view.stage if case.view is not None else None
    if stage is not None and _place(case, stage) > _place(case, state.stage):
        state = replace(state, stage=stage, stages=(*state.stages, (stage, case.now)))
    return replace(case, state=state)


def _place(case: Case, stage: str | None) -> int:
    """`ranks`, and what another version of the engine may have called its stages, come before all."""
    return case.engine.stages.index(stage) if stage in case.engine.stages else -1


def overdue(case: Case) -> Overdue | None:
    """The stage under way, where it takes too long to be believed in without a look."""
    state = case.state
    return start_times.overdue(state.stages, state.learned, state.launch.profile, state.launch.warm, case.now)


def waiting_words(case: Case) -> str:
    """`loading weights, 40 s so far`, and where that is too long, what it took before and what the ranks do."""
    stages, stage = case.state.stages, case.state.stage
    doing = case.engine.stage_words.get(stage, stage) if stage is not None else "starting"
    began = stages[-1][1] if stages else case.now
    said = f"{doing}, {duration(case.now - began)} so far"
    late = overdue(case)
    if late is None:
        return said
    before = f"it never took more than {duration(late.longest_s)}" if late.longest_s is not None else UNSEEN
    return "; ".join(filter(None, (f"{said}, {before}", movement.words(case))))


def news(case: Case, said: str) -> tuple[Case, list[tuple[str, str]]]:
    """The event of a stage that has just become suspect, which is told once in a start."""
    late = overdue(case)
    known = case.state.launch
    if late is None or late.stage in known.told:
        return case, []
    told = replace(known, told=(*known.told, late.stage))
    return replace(case, state=replace(case.state, launch=told)), [("suspect", said)]


def learned(case: Case, serving: State) -> State:
    """After the first answer. A start of which a part was not seen teaches nothing: its stages were entered at some other time."""
    known, began = serving.launch, case.state.started_at
    if known.gapped or began is None or not serving.stages:
        return serving
    seconds = {name: round(s, 1) for name, s in stage_seconds(serving.stages, case.now).items()}
    total_s = round(case.now - began, 1)
    times = start_times.learned(serving.learned, known.profile, known.warm, seconds, total_s)
    return replace(serving, learned=times)
