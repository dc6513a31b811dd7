"""Status answers of the daemon as docs/interfaces.md has them, one per situation that a person may find at 7 a.m."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AT = "2026-11-27T07:01:02Z"
GIB = 2**30

Json = dict[str, Any]


def rank(number: int, node: str, **changes: Any) -> Json:
    return {
        "rank": number,
        "node": node,
        "state": "up",
        "generation": 14,
        "container": f"{number}f3c9a7712de",
        "evidence_age_s": 2.1,
        "exit_code": None,
        **changes,
    }


def deployment(**changes: Any) -> Json:
    return {
        "name": "ds4-flash",
        "wanted": "up",
        "phase": "serve",
        "serving": True,
        "since": "2026-11-27T03:10:12Z",
        "generation": 14,
        "serving_since": "2026-11-27T03:10:12Z",
        "down_since": None,
        "paused": False,
        "profile": "balanced",
        "sentence": "serving since 03:10, canary 37.1 tok/s",
        "reason": "serving",
        "hold": None,
        "restart_pending": False,
        "next": None,
        "start": None,
        "last_failure": FAILURE,
        "drift": {"breaks": 0, "slows": 0, "unknown": 0, "benign": 2},
        "checks": {"ok": 31, "warn": 0, "fail": 0, "unknown": 0},
        "ranks": [rank(0, "spark1"), rank(1, "spark2")],
        **changes,
    }


FAILURE = {
    "generation": 13,
    "class": "transient",
    "signature": "worker-died",
    "text": "rank 1 on spark2 is gone: its container exited with 137",
    "at": "2026-11-27T03:00:31Z",
    "outage_s": 581.0,
}


def node(name: str, **changes: Any) -> Json:
    memory = {
        "total": 120 * GIB,
        "free": 8 * GIB,
        "available": 21 * GIB,
        "page_cache": 13 * GIB,
        "shm": 184 * 2**20,
        "swap_used": 0,
    }
    since = "2026-11-26T18:00:00Z"
    return {"name": name, "state": "ok", "since": since, "why": None, "boot_at": since, "memory": memory, **changes}


def status(*deployments: Json, nodes: list[Json] | None = None, **daemon: Any) -> Json:
    about = {"version": "0.1.0", "since": "2026-11-26T18:00:05Z", "loop_age_s": 1.2, "read_only_disk": False, **daemon}
    return {
        "schema": 1,
        "cluster": "desk",
        "at": AT,
        "daemon": about,
        "deployments": list(deployments),
        "nodes": [node("spark1"), node("spark2")] if nodes is None else nodes,
    }


def serving() -> Json:
    return status(deployment())


def slow() -> Json:
    """Loading weights takes longer than it ever did, and one rank does nothing."""
    found = starting()
    (one,) = found["deployments"]
    one["sentence"] = (
        "waiting for the engine: loading weights, 4 min so far, it never took more than 70 s; "
        "rank 1 on spark2 has done nothing for 3 min"
    )
    one["start"] |= {
        "eta_s": None,
        "suspect": {"stage": "weights", "seconds": 240.0, "longest_s": 70.0, "limit_s": 210.0},
    }
    return found


def starting() -> Json:
    stages = [
        {"name": "containers", "started_at": "2026-11-27T06:59:50Z", "seconds": 4.0},
        {"name": "rendezvous", "started_at": "2026-11-27T06:59:54Z", "seconds": 12.0},
        {"name": "weights", "started_at": "2026-11-27T07:00:06Z", "seconds": 56.0},
    ]
    start = {"stage": "weights", "stage_since": "2026-11-27T07:00:06Z", "eta_s": 110.0, "stages": stages}
    return status(
        deployment(
            phase="start_head",
            serving=False,
            since="2026-11-27T06:59:50Z",
            down_since="2026-11-27T06:59:12Z",
            sentence="starting generation 14: loading weights",
            reason="starting",
            start=start,
            last_failure={**FAILURE, "at": "2026-11-27T06:59:12Z", "outage_s": None},
        )
    )


def backoff() -> Json:
    return status(
        deployment(
            phase="backoff",
            serving=False,
            since="2026-11-27T07:00:44Z",
            sentence="rank 1 on spark2 is gone, its container exited with 137; starting again after a pause",
            reason="backoff",
            next={"at": "2026-11-27T07:01:44Z", "what": "restart 2 of 5 in this hour, as generation 15"},
            last_failure={**FAILURE, "generation": 14, "at": "2026-11-27T07:00:40Z", "outage_s": None},
            ranks=[rank(0, "spark1", state="absent", container=None), rank(1, "spark2", state="exited", exit_code=137)],
        )
    )


def held() -> Json:
    hold = {
        "class": "permanent",
        "fact": "exit:127",
        "text": "the entry point /workspace/start.sh does not exist in the image (exit 127, twice)",
        "fix": "bake it into the image, or correct `container.entrypoint` in ds4-flash.yaml",
        "heals_itself": False,
    }
    gone = [rank(number, name, state="exited", exit_code=127) for number, name in enumerate(("spark1", "spark2"))]
    failure = {**FAILURE, "generation": 14, "class": "permanent", "signature": "exit-127", "outage_s": None}
    return status(
        deployment(
            phase="held",
            serving=False,
            since="2026-11-27T03:02:05Z",
            sentence="held: the same exit twice in a row",
            reason="held-permanent",
            hold=hold,
            last_failure={**failure, "text": hold["text"]},
            ranks=gone,
        )
    )


def healing() -> Json:
    hold = {
        "class": "permanent",
        "fact": "image:spark2:ghcr.io/example/dgx-vllm:nightly",
        "text": "spark2 does not have the image ghcr.io/example/dgx-vllm:nightly",
        "fix": "on spark2: docker pull ghcr.io/example/dgx-vllm:nightly",
        "heals_itself": True,
        "awaits": "spark2 has its image; sparkd keeps looking",
    }
    none = [rank(number, name, state="absent", container=None) for number, name in enumerate(("spark1", "spark2"))]
    return status(
        deployment(
            phase="held",
            serving=False,
            sentence=hold["text"],
            reason="held-image",
            hold=hold,
            next={"at": "2026-11-27T07:01:05Z", "what": "look at the fact again"},
            ranks=none,
            last_failure=None,
        )
    )


def unknown_node() -> Json:
    lost = node(
        "spark2",
        state="unknown",
        since="2026-11-27T06:55:01Z",
        why="ssh: no answer to three keepalives",
        memory=None,
    )
    ranks = [rank(0, "spark1"), rank(1, "spark2", state="unknown", evidence_age_s=361.0)]
    return status(deployment(ranks=ranks), nodes=[node("spark1"), lost])


def unknown_and_down() -> Json:
    answer = unknown_node()
    answer["deployments"][0].update(
        phase="adopting", serving=False, sentence="waiting for spark2: rank 1 may be running there", since=AT
    )
    return answer


def not_answering() -> Json:
    """The fabric was cut: requests fail, and nothing may be done."""
    answer = unknown_node()
    answer["deployments"][0].update(
        serving=False,
        serving_since=None,
        down_since="2026-11-27T07:00:22Z",
        reason="not-answering",
        sentence="not answering: 2 canaries in a row failed, the first 40 s ago; spark2 is unknown (ssh: no answer to "
        "three keepalives); nothing is started or stopped until it can be read",
    )
    return answer


def nonsense() -> Json:
    """It answers with every light green, and what it answers is nothing."""
    said = "answers nonsense: '!' again and again: \"!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!\"; when it was well "
    answer = status(deployment())
    answer["deployments"][0].update(
        serving=False,
        serving_since=None,
        down_since="2026-11-27T07:00:22Z",
        reason="nonsense",
        sentence=said + '(2026-11-27T05:41:00Z, generation 14): "lantern 4729 copper. Paris."',
    )
    return answer


def broken() -> Json:
    hold = {
        "class": "permanent",
        "fact": "config",
        "text": "\n".join(
            [
                "ds4-flash.yaml:14: args.max_model_len: given twice",
                *(f"ds4-flash.yaml:{line}: env.A{line}: a number, write it in quotes" for line in range(20, 25)),
            ]
        ),
        "fix": "correct ds4-flash.yaml, check it with `sparkd config check`, then `systemctl restart sparkd`",
        "heals_itself": False,
    }
    return status(
        deployment(
            wanted="stopped",
            phase="held",
            serving=False,
            since=None,
            generation=0,
            file="ds4-flash.yaml",
            sentence="its file cannot be used: ds4-flash.yaml:14: args.max_model_len: given twice (and 5 more)",
            reason="held-config",
            hold=hold,
            last_failure=None,
            drift=None,
            checks=None,
            ranks=[],
        )
    )


def two() -> Json:
    fine = deployment(name="bge-m3", ranks=[rank(0, "spark1", generation=3)], generation=3, last_failure=None)
    bad = held()["deployments"][0]
    return status(fine, bad)


def paused() -> Json:
    said = "paused by milo: swapping the cable"
    return status(deployment(phase="paused", paused=True, sentence=said, last_failure=None))


def stopped() -> Json:
    none = [rank(number, name, state="absent", container=None) for number, name in enumerate(("spark1", "spark2"))]
    return status(
        deployment(
            wanted="stopped",
            phase="stopped",
            serving=False,
            sentence="stopped by milo: moving the rack",
            last_failure=None,
            ranks=none,
        )
    )


ALERT = {
    "kind": "low",
    "since": "2026-11-27T07:00:40Z",
    "text": "spark2 runs out of memory: 922 MiB available, down by 2.1 GiB in 2 s; most of that went to "
    "polkitd (pid 812), which grew by 2.0 GiB to 2.3 GiB",
    "fix": "on spark2: end polkitd (pid 812), or restart it",
    "acted": False,
}


def short_of_memory() -> Json:
    return status(deployment(), nodes=[node("spark1"), node("spark2", memory_alerts=[ALERT])])


def stale() -> Json:
    findings = {"ok": 29, "warn": 1, "fail": 2, "unknown": 1}
    drift = {"breaks": 1, "slows": 1, "unknown": 0, "benign": 0}
    one = deployment(restart_pending=True, checks=findings, drift=drift)
    return status(one, loop_age_s=95.0, read_only_disk=True)


def empty() -> Json:
    return status()


SCENES: dict[str, Callable[[], Json]] = {
    scene.__name__: scene
    for scene in (
        serving,
        starting,
        slow,
        backoff,
        held,
        healing,
        unknown_node,
        not_answering,
        nonsense,
        unknown_and_down,
        broken,
        two,
        paused,
        stopped,
        stale,
        short_of_memory,
        empty,
    )
}
