"""Real vLLM across both nodes: what decides whether sparkd works. Starts are shared: one group goes through all of it."""

from __future__ import annotations

import json
import time

import pytest

from .configured import NAME
from .driver import SPARKD, Daemon, audit, overlaps, since
from .faults import freeze, kill, reboot
from .load import Load

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def environ(daemon: Daemon, rank: int) -> dict[str, str]:
    pairs = daemon.node_of(rank).read(f"/proc/{main_pid(daemon, rank)}/environ").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def main_pid(daemon: Daemon, rank: int) -> int:
    """The rank itself: the only child of the container's init."""
    node = daemon.node_of(rank)
    init = node.docker("inspect", "-f", "{{.State.Pid}}", daemon.container(rank)).stdout.strip()
    return int(node.text(["pgrep", "-P", init]).split()[0])


def argv(daemon: Daemon, rank: int) -> list[str]:
    return daemon.node_of(rank).read(f"/proc/{main_pid(daemon, rank)}/cmdline").rstrip("\0").split("\0")


def test_a_start_ends_serving_and_runs_what_render_says(real: Daemon) -> None:
    one = real.start()
    assert (one["serving"], one["generation"]) == (True, 1)
    assert real.complete()["choices"]
    rendered = json.loads(real.head.run([SPARKD, "render", NAME, "--format", "json"]).stdout)
    for rank in rendered["ranks"]:
        number = rank["rank"]
        # The interpreter of the script comes first in /proc; what follows is the vector that was rendered.
        assert argv(real, number)[-len(rank["argv"]) :] == rank["argv"]
        wanted = rank["env"]
        assert wanted.items() <= environ(real, number).items()
        assert real.label(number, "generation") == "1"
    audit(real.history())


def test_what_runs_is_read_from_the_processes_and_is_what_was_blessed(real: Daemon) -> None:
    """vLLM's children rename themselves over their arguments and set variables of their own: none of that is drift."""
    real.wait_serving()
    real.ctl("bless", NAME, "--note", "as it was started")
    for words in ((), ("--against", "wanted")):
        done = real.ctl("drift", NAME, "--json", *words, check=False)
        assert (done.returncode, json.loads(done.stdout)["unread"]) == (0, {}), done.stdout + done.stderr
    measured = json.loads(real.ctl("known-good", "list", NAME, "--json").stdout)["known_good"][0]["measured"]
    assert measured["kv_cache_tokens"] > 0


def test_sparkd_killed_under_load_is_back_and_no_request_fails(real: Daemon) -> None:
    before = real.wait_serving()
    with Load(real) as load:
        had = load.good
        real.kill()
        real.wait("sparkd to be back", lambda one: one["serving"], 30)
        real.wait("requests to go on", lambda one: load.good > had + 2, 60)
    assert not load.bad
    assert real.one()["generation"] == before["generation"]
    assert real.kinds("adopted")


def test_worker_killed_while_requests_run(real: Daemon) -> None:
    before = real.wait_serving()
    with Load(real, max_tokens=200):
        kill(real.worker, real.engine_pid(1, "VLLM::Worker_TP1"))
        real.wait("the loss to be seen", lambda one: not one["serving"], 30)
    after = real.wait_serving(after=before["generation"])
    assert after["generation"] == before["generation"] + 1
    assert real.complete()["choices"]
    assert not overlaps(real)
    audit(real.history())


def test_worker_killed_on_an_idle_group_is_acted_on_at_once(real: Daemon) -> None:
    before = real.wait_serving()
    killed = time.monotonic()
    kill(real.worker, real.engine_pid(1, "VLLM::Worker_TP1"))
    real.wait("the loss to be acted on", lambda one: one["phase"] != "serve", 30)
    assert since(killed) < 15  # vLLM's own head never notices (evidence 01)
    real.wait_serving(after=before["generation"])
    audit(real.history())


def test_f21_a_killed_head_takes_the_widow_along(real: Daemon) -> None:
    before = real.wait_serving()
    real.head.docker("kill", real.container(0))
    after = real.wait_serving(after=before["generation"])
    assert after["last_failure"]["rank"] == 0 if "rank" in after["last_failure"] else True
    workers = real.worker.text(["pgrep", "-c", "-f", "^VLLM::Worker"])
    assert workers == "1"
    audit(real.history())


def test_a_frozen_worker_is_a_wedge_although_health_is_green(real: Daemon) -> None:
    before = real.wait_serving()
    freeze(real.worker, real.engine_pid(1, "VLLM::Worker_TP1"))
    after = real.wait_serving(after=before["generation"])
    assert after["last_failure"]["signature"] == "rank-stuck"
    audit(real.history())


def test_both_nodes_reboot_and_it_serves_again_with_nothing_by_hand(real: Daemon) -> None:
    before = real.wait_serving()
    reboot(real.worker, wait=False)
    reboot(real.head)
    real.worker.wait_booted()
    real.wait_serving(after=before["generation"])
    assert not real.kinds("held")
    audit(real.history())


def test_stop_ends_everything(real: Daemon) -> None:
    real.wait_serving()
    real.ctl("stop", NAME, "--yes", "--wait", timeout_s=120)
    for rank in (0, 1):
        assert not real.running(rank)
        assert real.node_of(rank).run(["pgrep", "-f", "^VLLM::"], check=False).returncode == 1
