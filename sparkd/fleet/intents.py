"""From a person's wish to whether it has come true: what `--wait` follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkd.model.decision import Intent, Phase, State

VERBS = ("start", "stop", "restart", "pause", "resume", "release")


@dataclass(frozen=True, slots=True)
class Wish:
    """One accepted operation. `asked_at` is on the daemon's clock, `generation` the one that ran when it was asked."""

    id: str
    deployment: str
    verb: str
    asked_at: float
    generation: int


def changed(
    intent: Intent,
    verb: str,
    lost: frozenset[str],
    by: str,
    message: str,
    at: float,
    clean: bool = False,
    force: bool = False,
) -> Intent:
    """The intent after this verb. A start or restart also releases: a person who asks for it wants it tried now."""
    said = replace(intent, by=by, message=message, at=at)
    if verb in ("start", "stop", "restart"):
        said = replace(said, unread=False)
    match verb:
        case "start":
            return replace(said, wanted="up", release=intent.release + 1, lost=frozenset(), forced=force)
        case "stop":
            return replace(said, wanted="stopped", lost=intent.lost | lost)
        case "restart":
            asked = intent.restart + 1
            cleaned = asked if clean else intent.clean
            return replace(said, wanted="up", restart=asked, clean=cleaned, forced=force)
        case "pause":
            return replace(said, paused=True)
        case "resume":
            return replace(said, paused=False)
        case "release":
            return replace(said, release=intent.release + 1)
        case _:
            raise ValueError(f"no such verb: {verb}")


def conflict(intent: Intent, state: State, verb: str) -> tuple[str, str] | None:
    """(reason, fix) why this verb makes no sense now, or None."""
    if intent.paused and verb in ("start", "stop", "restart", "release"):
        return "it is paused: sparkd acts on nothing", "sparkd ctl resume {name}"
    if verb == "resume" and not intent.paused:
        return "it is not paused", ""
    if verb == "release" and state.phase not in (Phase.HELD, Phase.BACKOFF):
        return f"it is not held, its phase is {state.phase.value}", ""
    return None


def progress(wish: Wish, intent: Intent | None, state: State | None) -> tuple[str, str]:
    """(`running` | `done` | `failed`, sentence) of an operation; intent and state are None once its deployment is gone."""
    if intent is None or state is None:  # only one of which nothing runs is let go of
        return "done" if wish.verb == "stop" else "failed", "it has no usable file and nothing of it runs: removed"
    if wish.verb == "pause":
        return ("done" if state.phase is Phase.PAUSED else "running"), state.sentence
    if wish.verb == "resume":
        return ("done" if state.phase not in (Phase.PAUSED, Phase.ADOPTING) else "running"), state.sentence
    if wish.verb == "stop":
        if intent.wanted != "stopped":
            return "failed", "another operation took its place"
        return ("done" if state.phase is Phase.STOPPED and state.reason == "stopped" else "running"), state.sentence
    if intent.wanted != "up":
        return "failed", "it was stopped meanwhile"
    if state.phase is Phase.HELD and state.since > wish.asked_at:
        return "failed", state.sentence
    handled = state.restart_done >= intent.restart and state.release_done >= intent.release
    fresh = state.generation > wish.generation or wish.verb != "restart"
    return ("done" if state.phase is Phase.SERVE and handled and fresh else "running"), state.sentence
