"""The engine's own parser, asked in the lab's engine image with the vLLM of its mount: no group is started for it."""

from __future__ import annotations

import json

from .commands import wait_for
from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import SPARKD, Daemon
from .test_checks import run_checks

ASKED = "/var/lib/sparkd/parsers"
WRONG = "  dtype: fp8\n  reasoning-parser: nosuch\n  no-such-flag: 1\n"


def configure(daemon: Daemon, wrong: str = "") -> None:
    text = deployment(real=True).replace("args:\n", f"args:\n{wrong}")
    daemon.lab.configure({"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": text})
    daemon.head.run(["systemctl", "restart", "sparkd.service"])


def kept(daemon: Daemon) -> str:
    """Every answer on the disk, and when it was written; empty while there is none."""
    return daemon.head.run(["sh", "-c", f"stat -c '%n %y' {ASKED}/*.json"], check=False).stdout


def left(daemon: Daemon) -> list[str]:
    """Containers of asking and of looking, on both nodes."""
    return [
        one
        for node in daemon.lab.nodes
        for label in ("io.sparkd.ask", "io.sparkd.look")
        for one in node.docker("ps", "-aq", "--filter", f"label={label}").stdout.split()
    ]


def flags(daemon: Daemon, *argv: str) -> tuple[int, list[tuple[str, str]]]:
    """(exit code, what the check `flags` says) of `ctl check`, or of other words."""
    code, rows = run_checks(daemon, *argv)
    return code, [(row["status"], row["text"]) for (name, _), row in rows.items() if name == "flags" and row["text"]]


def test_what_the_images_own_vllm_refuses_holds_the_start(fast: Daemon) -> None:
    configure(fast, WRONG)
    wait_for("vLLM's parser to be asked", lambda: kept(fast) != "", 120)
    answer = kept(fast)
    code, said = flags(fast)
    assert (code, said[0][0]) == (4, "fail")
    assert said[0][1].startswith("the image's own vllm 0.32.0 ")
    wait_for("its container to be removed", lambda: not left(fast), 20)
    done = fast.ctl("start", NAME, "--wait", "--timeout", "60", check=False, timeout_s=90)
    held = fast.one()
    assert (done.returncode, held["phase"], held["generation"]) == (1, "held", 0)
    assert held["hold"]["fact"] == "check::flags"
    fast.ctl("stop", NAME, "--yes")

    # Without a daemon the same is said, of the answer that is kept; and the daemon's next life does not ask again.
    code, alone = flags(fast, "check", NAME)
    assert (code, alone) == (4, said)
    configure(fast)
    code, said = flags(fast)
    assert (code, said) == (0, [])
    assert kept(fast) == answer
    # The engine lies in a mount, and drift reads by what it has said.
    found = json.loads(fast.ctl("drift", NAME, "--against", "wanted", "--json", check=False).stdout)
    assert (found["flags_by"], found["unread"]) == ("the image's own vllm 0.32.0", {}), found
    wait_for("what only looks into the image to be gone", lambda: not left(fast), 20)


def test_a_check_without_a_daemon_asks_by_itself(fast: Daemon) -> None:
    fast.head.run(["systemctl", "stop", "sparkd.service"])
    fast.lab.configure({"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": deployment(real=True)})
    fast.head.run(["sh", "-c", f"rm -rf {ASKED}"])
    done = fast.head.run([SPARKD, "check", NAME], check=False, timeout_s=180)
    assert done.returncode == 0, done.stdout + done.stderr
    owners = fast.head.text(["stat", "-c", "%U", "/var/lib/sparkd", ASKED]).split()
    assert owners[0] == owners[1]
    assert not left(fast)
