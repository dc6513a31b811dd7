"""The GPU: the driver answers, there is a device, no fatal Xid since boot, and it is not stuck in low power."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.gpu import GPU, Gpu, GpuState
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.decision import FailureClass

FATAL_XIDS = {
    48: "double-bit ECC error",
    79: "the GPU has fallen off the bus",
    94: "contained ECC error",
    119: "the GPU's system processor does not answer",
    120: "error in the GPU's system processor",
    154: "the GPU wants a reset or a reboot",
}
"""NVIDIA's Xid catalogue; 119 and 79 are what the reports of dead Sparks show (open-gpu-kernel-modules#446)."""
LOW_MHZ, BUSY_PERCENT = 900.0, 90.0
"""A Spark whose power delivery gave up runs near 500 to 850 MHz under full load, instead of about 2400."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, state in scene.each(GPU):
        yield from _driver(node, state)
        for xid in state.xids:
            if xid.number in FATAL_XIDS:
                text = f"Xid {xid.number} on {node} since its boot: {FATAL_XIDS[xid.number]}"
                yield Trouble(node, text, f"reboot {node}; if it comes back, take its power for a minute", (xid.text,))
                break
        yield from (trouble for gpu in state.gpus for trouble in _stuck(node, gpu))


def _driver(node: str, state: GpuState) -> Iterator[Trouble]:
    if state.smi == "ok" and state.gpus:
        return
    if state.module is None:
        text = f"no NVIDIA kernel module is loaded on {node}"
        fix = f"on {node}: modprobe nvidia tells why; after a kernel update the driver's modules must be built again"
        yield Trouble(node, text, fix, not_yet=True)
    elif state.smi == "missing":
        fix = f"on {node}: install the utilities of driver {state.module}"
        yield Trouble(node, f"nvidia-smi is not installed on {node}", fix, mild=True)
    else:
        # Third field report: the module was loaded and the tool said "No devices were found".
        text = f"the NVIDIA module {state.module} is loaded on {node}, but the driver has no usable GPU"
        fix = f"on {node}: dmesg | grep NVRM; is the open kernel module installed, in the version of the utilities?"
        yield Trouble(node, text, fix, (f"nvidia-smi: {state.said}",), not_yet=True)


def _stuck(node: str, gpu: Gpu) -> Iterator[Trouble]:
    """Only a GPU that works shows it: idle ones clock down on purpose."""
    if gpu.sm_mhz is None or gpu.utilization is None or gpu.utilization < BUSY_PERCENT or gpu.sm_mhz >= LOW_MHZ:
        return
    text = f"the GPU of {node} works at {gpu.sm_mhz:.0f} MHz under full load: its power is limited"
    fix = f"shut {node} down, unplug its power supply for a minute, and start it again: a reboot does not clear this"
    yield Trouble(node, text, fix, mild=True)


def _has_gpu(deployment: Deployment) -> bool:
    return deployment.hardware != "cpu"


CHECK = Check(
    code="gpu",
    order=210,
    # Not more than a warning: read on recorded output of the tool, never yet on a Spark from inside the node service.
    level=Level.WARN,
    description="nvidia-smi answers and shows a GPU, no fatal Xid since boot, and it is not stuck in low power.",
    evaluate=evaluate,
    needs=(GPU,),
    applies=_has_gpu,
    cls=FailureClass.HARDWARE,
)
