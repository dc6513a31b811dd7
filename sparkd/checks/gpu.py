"""The GPU: the driver has one, the kernel logged no error that it cannot get over, and nothing slows its clocks down.

Two things hold a start for a person: a driver that says itself that its GPU is gone, and a fatal Xid. What may be no more than a
tool that cannot look is told: a false hold costs a night.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.checks.shared.xids import POWER, known
from sparkd.facts.gpu import GPU, Gpu, GpuState
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.decision import FailureClass

GONE = re.compile(r"no devices were found|gpu is lost|unable to determine the device handle", re.IGNORECASE)
"""nvidia-smi's own words for a GPU that is gone: third field report, and what it prints after Xid 79 and 119."""
WORKS = "if it works all the same, say so with `checks: {gpu: warn}`"
BUSY_PERCENT = 90.0
REASONS: tuple[tuple[int, str, str], ...] = (
    (0x80, "its power supply brakes it", "check the power supply and its cable; take the power of {node} for a minute"),
    (0x40, "it is too hot, and its hardware slows it down", "check fans and air around {node}"),
    (0x20, "it is too hot, and the driver slows it down", "check fans and air around {node}"),
    (0x08, "its hardware slows it down", "check the power supply and the temperature of {node}"),
)
"""The driver's clock-event reasons (NVML) that are a fault, the most telling first. 0x04, the power limit, is work: an H200 in
matrix products ran at 1440 of 1980 MHz under it, and a card with a low limit near 900."""
FEW = 0.5
"""Of the card's highest clock. A loaded GPU for whose clock the driver names no reason runs at it (H200: 1980 of 1980 MHz, GB10:
about 2400 of 3000); a GB10 whose firmware limits it stays at 500 to 850, below what the driver knows of (minefield#55)."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, state in scene.each(GPU):
        yield from _driver(node, state)
        yield from _xids(node, state)
        yield from (trouble for gpu in state.gpus for trouble in _slowed(node, gpu))


def _driver(node: str, state: GpuState) -> Iterator[Trouble]:
    if state.smi == "ok" and state.gpus:
        return
    if state.module is None:
        text = f"no NVIDIA kernel module is loaded on {node}"
        fix = f"on {node}: modprobe nvidia tells why; after a kernel update the driver's modules must be built again"
        yield Trouble(node, text, fix, mild=True, not_yet=True)
    elif state.smi == "missing":
        fix = f"on {node}: install the utilities of driver {state.module}"
        yield Trouble(node, f"nvidia-smi is not installed on {node}", fix, mild=True)
    else:
        # Third field report: the module was loaded and the tool said "No devices were found".
        text = f"the NVIDIA module {state.module} is loaded on {node}, but the driver has no usable GPU"
        power = POWER.format(node=node)
        fix = f"on {node}: dmesg | grep NVRM; is the open kernel module installed, in the version of the utilities? Else {power}"
        gone = bool(GONE.search(state.said)) or state.smi == "ok"
        yield Trouble(node, text, fix, (f"nvidia-smi: {state.said}",), mild=not gone, not_yet=True)


def _xids(node: str, state: GpuState) -> Iterator[Trouble]:
    """Of each class the last one; a hundred lines of one error are one error."""
    for number, xid in {one.number: one for one in state.xids}.items():
        found = known(xid)
        if found is not None:
            text = f"Xid {number} on {node} since its boot: {found.text}"
            fix = found.fix.format(node=node) + (f"; {WORKS}" if found.fatal else "")
            yield Trouble(node, text, fix, (xid.text,), mild=not found.fatal)


def _slowed(node: str, gpu: Gpu) -> Iterator[Trouble]:
    """Only a GPU that works shows it: idle ones clock down on purpose. Judged by the driver's reasons, not by a number of MHz."""
    if gpu.sm_mhz is None or gpu.utilization is None or gpu.utilization < BUSY_PERCENT or gpu.reasons is None:
        return
    at = f"the GPU of {node} works at {gpu.sm_mhz:.0f} MHz under full load"
    for bit, why, fix in REASONS:
        if gpu.reasons & bit:
            yield Trouble(
                node, f"{at}: {why}", fix.format(node=node), (f"clock-event reasons {gpu.reasons:#x}",), mild=True
            )
            return
    if gpu.reasons == 0 and gpu.max_sm_mhz is not None and gpu.sm_mhz < FEW * gpu.max_sm_mhz:
        text = f"{at}, of {gpu.max_sm_mhz:.0f}, and the driver names no reason: its firmware limits it"
        fix = (
            f"shut {node} down, unplug its power supply for a minute, and start it again: a reboot does not clear this"
        )
        yield Trouble(node, text, fix, mild=True)


def _has_gpu(deployment: Deployment) -> bool:
    return deployment.hardware != "cpu"


CHECK = Check(
    code="gpu",
    order=210,
    level=Level.FAIL,
    description="The driver has a usable GPU, the kernel logged no fatal Xid since boot, and nothing slows its clocks down.",
    evaluate=evaluate,
    needs=(GPU,),
    applies=_has_gpu,
    cls=FailureClass.HARDWARE,
)
