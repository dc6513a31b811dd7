"""Turns the status into the screen of `sparkd ctl status`: the verdict first, the commands to see more last."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.ctl.answers import Deployment, Failure, Node, Pending, Rank, Start, Status
from sparkd.ctl.text import Cell, Terminal, ago, clock, duration, hint, labelled, listing, size, table, wrap
from sparkd.ctl.words import STARTING, down_for, headline, short_nodes, since, verdict, what_next, why

STALE_S = 30.0
"""Six periods of the loop: what the daemon knows is old then, and the screen says so first."""

STATE_COLOURS = {"up": "green", "starting": "yellow", "created": "yellow", "stopping": "yellow", "unknown": "yellow"}


def screen(status: Status, term: Terminal, name: str | None = None) -> list[str]:
    """The lines to print, worst deployment first; only `name` where it is given."""
    shown = [deployment for deployment in status.deployments if name in (None, deployment.name)]
    shown.sort(key=lambda deployment: (-verdict(deployment, status).worry, deployment.name))
    first = headline(status, tuple(shown))
    trouble = list(_daemon_trouble(status, term))
    colour = "yellow" if trouble and first.colour == "green" else first.colour
    lines = [*trouble, *_sentence(first.text, colour, term)]
    for deployment in shown:
        if len(shown) > 1:
            one = verdict(deployment, status)
            lines += ["", *_sentence(one.text, one.colour, term)]
        lines += _block(deployment, status, term)
    if not shown:
        lines += labelled(
            "next", "put a file into the folder deployments beside sparkd.yaml, then `sparkd config check`", term
        )
    lines += ["", *_footer(status, term), *_more(shown, status, term)]
    return lines


def _daemon_trouble(status: Status, term: Terminal) -> Iterator[str]:
    age = status.daemon.loop_age_s
    if age is not None and age > STALE_S:
        yield from _sentence(f"sparkd itself has not looked for {duration(age)}: all that follows is old.", "red", term)
    if status.daemon.read_only_disk:
        yield from _sentence("sparkd cannot write to its disk: verbs are refused, supervision goes on.", "yellow", term)


def _sentence(text: str, colour: str, term: Terminal) -> list[str]:
    return [term.paint(line, colour) for line in wrap(text, term.width)]


def _block(deployment: Deployment, status: Status, term: Terminal) -> list[str]:
    lines = []
    if down := down_for(deployment, status):
        lines += labelled("down for", down, term)
    elif (began := since(deployment)) is not None:
        lines += labelled("since", ago(began, status.at), term)
    if said := why(deployment):
        lines += labelled("now" if deployment.serving else "why", said, term)
    if deployment.hold and deployment.hold.fix:
        lines += labelled("fix", deployment.hold.fix, term, "bold")
    if deployment.phase in STARTING and deployment.start and deployment.start.stage:
        lines += labelled("stages", _stages(deployment.start, status.at), term)
    lines += labelled("next", what_next(deployment, status), term)
    pending = deployment.pending
    if deployment.restart_pending or (pending and (pending.removed or pending.problems)):
        lines += labelled("pending", pending_text(pending, deployment.name), term, "yellow")
    elif pending:  # nothing runs, so nothing is pending: a start goes by the file
        lines += labelled("changed", f"its file, since it last ran{_keys(pending)}", term, "yellow")
    if deployment.ranks:
        lines += ["", *_ranks(deployment, status, term)]
    for node in status.unread_nodes(deployment):
        lines += labelled("unread", _unread(node, status.at), term, "yellow")
    for node in short_nodes(deployment, status):
        for alert in node.memory_alerts:
            lines += labelled("memory", alert.text, term, "yellow")
            lines += labelled("fix", alert.fix, term, "bold") if alert.fix else []
    facts = list(_facts(deployment, status, term))
    return [*lines, "", *facts] if facts else lines


def pending_text(pending: Pending | None, name: str) -> str:
    """What the file of a running deployment says by now, in one line; `sparkd ctl why` has every change."""
    if pending and pending.removed:
        return f"its file is gone: it goes on as it was started, until `sparkd ctl stop {name}`"
    if pending and pending.problems:
        more = f" (and {len(pending.problems) - 1} more)" if len(pending.problems) > 1 else ""
        return f"its file cannot be used, so it goes on as it was started: {pending.problems[0]}{more}"
    return f"its file has changed{_keys(pending) if pending else ''}; `sparkd ctl restart {name}` applies it"


def _keys(pending: Pending) -> str:
    keys = [change.key for change in pending.changes]
    return f" ({listing(keys) if len(keys) < 4 else f'{keys[0]}, {keys[1]} and {len(keys) - 2} more'})" if keys else ""


def _stages(start: Start, now: float) -> str:
    done = [
        f"{stage.name} {duration(stage.seconds)}"
        for stage in start.stages
        if stage.seconds is not None and stage.name != start.stage
    ]
    if start.stage:
        so_far = f" {duration(now - start.stage_since)} so far" if start.stage_since is not None else ""
        done.append(f"{start.stage}{so_far}{' (too long)' if start.suspect else ''}")
    return ", ".join(done)


def _ranks(deployment: Deployment, status: Status, term: Terminal) -> list[str]:
    header = ("RANK", "NODE", "STATE", "GENERATION", "SEEN", "FREE", "AVAILABLE")
    return table(header, [_rank(rank, deployment, status) for rank in deployment.ranks], term)


def _rank(rank: Rank, deployment: Deployment, status: Status) -> list[Cell]:
    node = status.node(rank.node)
    unread = node is not None and node.unread
    memory = node.memory if node else None
    state = ("unknown" if unread else rank.state) or "absent"
    if rank.exit_code is not None and not unread:
        state += f" ({rank.exit_code})"
    old = rank.generation not in (None, deployment.generation)
    ran = rank.generation is not None and state != "absent"
    generation = f"{rank.generation}{' (old)' if old else ''}" if ran else "-"
    age = rank.evidence_age_s
    return [
        Cell(str(rank.rank)),
        Cell(rank.node),
        Cell(state, STATE_COLOURS.get(state, "red" if deployment.wanted == "up" else "")),
        Cell(generation, "yellow" if old else ""),
        Cell("never" if age is None else f"{duration(age)} ago", "yellow" if age is None or age > STALE_S else ""),
        Cell(size(memory.free if memory else None)),
        Cell(size(memory.available if memory else None)),
    ]


def _unread(node: Node, now: float) -> str:
    since = f" since {ago(node.since, now)}" if node.since is not None else ""
    why = node.why or "no reason given"
    return f"{node.name} cannot be asked{since}: {why}"


def _facts(deployment: Deployment, status: Status, term: Terminal) -> Iterator[str]:
    if deployment.last_failure:
        yield from labelled("last down", _failure(deployment.last_failure, status.at), term)
    checks, drift = deployment.checks, deployment.drift
    for label, command, counts in (
        (
            "checks",
            "sparkd ctl check",
            [(checks.fail, "failed"), (checks.unknown, "unread"), (checks.warn, "warned")] if checks else [],
        ),
        (
            "drift",
            "sparkd ctl drift",
            [(drift.breaks, "that breaks it"), (drift.slows, "that slows it"), (drift.unknown, "of unknown effect")]
            if drift
            else [],
        ),
    ):
        bad = [f"{number} {word}" for number, word in counts if number]
        if bad:
            text = f"{', '.join(bad)}: `{command} {deployment.name}`"
            yield from labelled(label, text, term, "red" if counts[0][0] else "yellow")


def _failure(failure: Failure, now: float) -> str:
    """`at` is when it was noticed; it had been down for some seconds by then."""
    when = ago(failure.at, now) if failure.at is not None else "some time ago"
    outage = f", down for {duration(failure.outage_s)}" if failure.outage_s is not None else ""
    kind = ", ".join(word for word in (f"generation {failure.generation}", failure.class_, failure.signature) if word)
    return f"noticed {when}{outage}: {failure.text.rstrip('.')} ({kind})"


def _footer(status: Status, term: Terminal) -> Iterator[str]:
    age = status.daemon.loop_age_s
    looked = f", last look {duration(age)} ago" if age is not None else ""
    now = clock(status.at, status.at)
    said = f"{status.cluster}, {now}, sparkd {status.daemon.version}{looked}"
    yield from (term.paint(f"  {line}", "dim") for line in wrap(said, term.width - 2))


def _more(shown: list[Deployment], status: Status, term: Terminal) -> Iterator[str]:
    """Commands that apply to the worst of what is shown."""
    if not shown:
        return
    worst = shown[0]
    name = f" {worst.name}" if len(status.deployments) > 1 else ""
    unusable = worst.hold is not None and worst.hold.fact == "config"
    for applies, command, what in (
        (unusable, "sparkd config check", "every problem of every file"),
        (worst.phase in STARTING, f"sparkd ctl watch{name}", "the same, kept up to date"),
        (
            bool(worst.last_failure or worst.hold) and not unusable,
            f"sparkd ctl why{name}",
            "the cause, with the evidence",
        ),
        (any(rank.container for rank in worst.ranks), f"sparkd ctl logs{name} -f", "what the engine says, all ranks"),
        (True, f"sparkd ctl history{name}", "what happened before"),
    ):
        if applies:
            yield from hint(command, what, term)
