"""boot: which reboots are told, and what is said of them."""

from __future__ import annotations

import pytest
from check_world import scene, trouble, view

from sparkd.checks import boot
from sparkd.facts.boots import BOOTS, Boots

ORDERLY = ((1.0, "systemd[1]: Reached target reboot.target - System Reboot."), (2.0, "systemd-shutdown[1]: Syncing"))
UPGRADED = ((0.5, "python3[9]: unattended-upgrade: rebooting"), *ORDERLY)
CUT = ((1.0, "vllm[77]: INFO Avg generation throughput"),)


@pytest.mark.parametrize(
    ("boots", "texts"),
    [
        (Boots(up_s=7200, end=ORDERLY), []),
        (Boots(up_s=7200), []),
        (Boots(up_s=9e5, end=CUT), []),
        (
            Boots(up_s=7200, end=CUT),
            [
                "spark1 rebooted 2.0 h ago: nothing was shut down before: a crash, a reset or a power cut; the journal ends "
                "with 'vllm[77]: INFO Avg generation throughput'"
            ],
        ),
        (Boots(up_s=120, end=UPGRADED), ["spark1 rebooted 2 min ago: an orderly shutdown by unattended-upgrades"]),
        (
            Boots(up_s=7200, end=ORDERLY, kernel="6.14.1", kernel_before="6.14.0", driver="580", driver_before="580"),
            ["the reboot of spark1 2.0 h ago brought another kernel 6.14.0 -> 6.14.1"],
        ),
    ],
)  # fmt: skip
def test_reboots(boots: Boots, texts: list[str]) -> None:
    found = trouble(boot.CHECK, scene({BOOTS: {"spark1": boots, "spark2": Boots(up_s=1e6)}}, view("spark1")))
    assert [one.text for one in found] == texts


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ((), "why is not known: no journal from before this boot was kept"),
        (ORDERLY, "an orderly shutdown, asked for by a person or a program"),
        (((1.0, "systemd-logind[8]: Power key pressed short."), *ORDERLY), "an orderly shutdown after the power key was pressed"),
        (((1.0, "kernel: Kernel panic - not syncing"),), "before it the kernel said 'kernel: Kernel panic - not syncing'"),
    ],
)  # fmt: skip
def test_why(end: tuple[tuple[float, str], ...], why: str) -> None:
    assert Boots(up_s=1, end=end).why == why
