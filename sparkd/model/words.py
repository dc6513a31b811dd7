"""A status (the JSON object) turned into a verdict in words: what a person reads first at 7 a.m."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]

LATE_LOOP_S = 30.0
"""Six missed looks at the default period: the status is then old, and its first line says so."""

UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))

RUNNING = ("up", "starting", "stopping", "frozen", "widowed", "stale")

STARTING = ("precheck", "cleanup", "start_workers", "start_head", "warmup")


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 50 min`, `2 d 4 h`: two units are enough for a decision."""
    whole = max(0, round(seconds))
    for size, large, unit, small in UNITS:
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count} {large}" + (f" {rest // unit} {small}" if rest >= unit else "")
    return f"{whole} s"


def rfc3339(unix: float) -> str:
    """Unix time as RFC 3339 in UTC, whole seconds. A clock beyond the calendar (a broken RTC) gives its nearest end."""
    return datetime.fromtimestamp(min(max(unix, 0.0), 253402300799.0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def between(start: str | None, end: str | None) -> float | None:
    """Seconds from one RFC 3339 time to another; None where one of them is missing."""
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def stopped(text: str) -> str:
    """The text with a full stop at its end, unless it has an end already."""
    text = text.strip()
    return text + ("" if not text or text[-1] in ".!?" else ".")


AWAITED = {
    "image": "{node} has its image",
    "mount": "what it mounts is there on {node}",
    "device": "the device that it needs is there on {node}",
    "path": "its command and its folders are there on {node}",
    "user": "its user exists on {node}",
    "port": "its port on {node} is free",
    "name": "no other container on {node} has its name",
    "gone": "nothing of the last start is left on {node}",
    "stray": "nothing of an earlier generation is left on {node}",
    "node": "{node} can be asked again, or it answers",
    "maintenance": "the maintenance of {node} is over: after its next boot, or at its time",
    "memory": "{node} has the memory that its rank needs",
    "memory-guard": "{node} has more memory than before the start that ran out of it, or its file has changed",
}
"""Kind of the fact of a hold that heals itself -> what has to become true."""


def awaited(fact: str, name: str) -> str:
    """What a hold that heals itself waits for; completes "goes on by itself when …"."""
    kind, _, rest = fact.partition(":")
    if kind == "exit":
        file = "its file (`sparkd ctl reload` reads it) or its image has changed"
        return f"{file}; fixed elsewhere: `sparkd ctl release {name}`"
    node, _, what = rest.partition(":")
    if kind == "check":
        where = f" on {node}" if node else ""
        return f"the check `{what}` passes{where}; sparkd keeps looking"
    words = AWAITED.get(kind, "that is right ({fact})").format(node=node, fact=fact)
    return f"{words}; sparkd keeps looking"


def reasoned(sentence: str, message: str) -> str:
    """The sentence with what the person said who asked for it, unless it is in there already."""
    return sentence if not message or message in sentence else f"{sentence} (reason: {message})"


def headline(status: Json) -> str:
    """The verdict in a sentence or two: sparkd's own trouble, what is down, what serves, which nodes are unknown."""
    parts = (
        *_about_daemon(status["daemon"]),
        *_about_deployments(status["deployments"], status["at"]),
        *(_about_node(node, status["at"]) for node in status["nodes"]),
        *(stopped(alert["text"]) for node in status["nodes"] for alert in node.get("memory_alerts", ())),
    )
    return " ".join(part for part in parts if part)


def _about_daemon(daemon: Json) -> tuple[str, ...]:
    age = daemon["loop_age_s"]
    return (
        f"sparkd itself has not looked for {duration(age)}: all of this is that old." if age > LATE_LOOP_S else "",
        "The journal cannot be written (disk full or read-only): sparkd supervises on, history is kept in memory, "
        "and start, stop and the like are refused."
        if daemon["read_only_disk"]
        else "",
    )


def _about_deployments(deployments: Sequence[Json], at: str) -> list[str]:
    if not deployments:
        return ["No deployment is configured."]
    bad = [d for d in deployments if d["problems"] or (d["wanted"] == "up" and not d["serving"])]
    serving = [d for d in deployments if d["wanted"] == "up" and d["serving"]]
    idle = [d for d in deployments if d["wanted"] != "up" and not d["problems"]]
    words = [_trouble(bad[0], at)] if len(bad) == 1 else []
    if len(bad) > 1:
        words.append(f"{len(bad)} are NOT serving: {', '.join(d['name'] for d in bad)}.")
    if len(serving) == 1:
        words.append(_serves(serving[0], at))
    elif serving:
        words.append(f"{', '.join(d['name'] for d in serving)} are serving.")
    return words + [_idle(d) for d in idle]


def _serves(deployment: Json, at: str) -> str:
    lasted = between(deployment["serving_since"], at)
    text = f"{deployment['name']} is serving" + (f", for {duration(lasted)} now" if lasted is not None else "")
    return f"{text}. It is paused: sparkd watches and does nothing." if deployment["paused"] else f"{text}."


def _idle(deployment: Json) -> str:
    name = deployment["name"]
    if deployment["serving"]:
        return f"{name} still serves and is being stopped, as wanted."
    if deployment["phase"] in ("stopped", "adopting") and not any(r["state"] in RUNNING for r in deployment["ranks"]):
        return f"{name} is stopped, as wanted."
    return f"{name} is being stopped, as wanted: {stopped(deployment['sentence'])}"


def _trouble(deployment: Json, at: str) -> str:
    name, phase, hold = deployment["name"], deployment["phase"], deployment["hold"]
    if hold and hold["fact"].startswith("maintenance:"):
        return f"{name} is stopped for planned work: {stopped(hold['text'])}"
    if hold:
        why = deployment["sentence"] if deployment["problems"] else hold["text"]
        return f"{name} is NOT serving, held: {stopped(why)}"
    if deployment["reason"] == "intent-unread":
        return f"{name} is NOT serving: {stopped(deployment['sentence'])}"
    if phase == "paused" or deployment["paused"]:
        return f"{name} is NOT serving and paused: sparkd does nothing until it is resumed."
    down = between(deployment["down_since"], at)
    since = f" for {duration(down)}" if down is not None else ""
    if phase in STARTING:
        return _starting(deployment, since)
    if phase == "adopting":
        return f"{name} is being looked at; nothing is changed until it is clear what runs."
    if phase == "serve" and deployment["reason"] == "nonsense":
        return f"{name} is NOT serving{since}: it {stopped(deployment['sentence'])}"
    if phase == "serve":
        return f"{name} is NOT answering{since}: {stopped(deployment['sentence'].removeprefix('not answering: '))}"
    return f"{name} is NOT serving{since}: {stopped(deployment['sentence'])}{_next(deployment, at)}"


def _starting(deployment: Json, since: str) -> str:
    start = deployment["start"] or {}
    stage = f" ({start['stage']})" if start.get("stage") else ""
    left = f", about {duration(start['eta_s'])} to go" if start.get("eta_s") is not None else ""
    if late := start.get("suspect"):
        left = f", which takes too long: {suspect_words(late['seconds'], late['longest_s'])}"
    return f"{deployment['name']} is NOT serving{since}: it is starting{stage}{left}."


def suspect_words(seconds: float, longest_s: float | None) -> str:
    """Of a stage that is suspect: `4 min so far, never more than 70 s before`."""
    before = f"never more than {duration(longest_s)} before" if longest_s is not None else "never seen to end before"
    return f"{duration(seconds)} so far, {before}"


def _next(deployment: Json, at: str) -> str:
    planned = deployment["next"]
    if not planned:
        return ""
    wait = between(at, planned["at"])
    return f" Next: {planned['what']}" + (f" in {duration(wait)}." if wait else ".")


def _about_node(node: Json, at: str) -> str:
    """Planned work comes before what it causes; of a node that is well there is nothing to say."""
    if work := node.get("maintenance"):
        left = between(at, work["until"])
        return f"{node['name']} is under maintenance until its next boot, or for {duration(left or 0.0)} more."
    if node["state"] != "unknown":
        return ""
    silent = between(node["since"], at)
    lasted = f" for {duration(silent)}" if silent is not None else ""
    return f"{node['name']} could not be asked{lasted} ({node['why']}): unknown, which is not down."


OF_A_FILE = ("flag", "env", "image", "container", "rank")
"""Kinds of drift that a deployment file can make, and an older one undo; a kernel, a unit or weights stay what they are."""


def short(value: object) -> str:
    """A value on one line."""
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
