"""Does a node work for its ranks, or do they only wait? Two looks at it -> working, spinning, idle, or not known. Pure.

What counts, and why:

* Bytes on the fabric: ranks that compute together exchange megabytes at every step, ranks that wait for each other nothing.
  A deadlock of NCCL on GB10 showed as counters that stand still on all nodes, a prefill of 11 minutes as ones that move.
* The power of a GPU, beside what the same node draws while its ranks are loaded and only wait. Utilisation proves nothing: a
  kernel that waits counts as 100 %, and between two nodes it does so even while nobody asks. Recorded on an H200: loaded and
  idle 119 W, a spin 119.5 W with 0 % of memory, decoding 464 W with 100 %, a prefill 690 W with 23 % at a lowered clock. But
  an all-reduce over sockets looks like a spin (122 W, 0 %), so that a still fabric belongs to the proof of one.
* A lowered clock under the power limit is work: what waits does not reach that limit.
* CPU time alone is no proof: NCCL and CUDA wait in loops that take a core each, and so does a scheduler that goes round in
  circles. That a rank starts compilers is one, and so is one process of a rank without GPUs that computes on several cores.

What is missing makes it not known, which is never acted on sooner, and never later, than without any of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sparkd.decide.cpu_time import Used
from sparkd.model.effort import Efforts, GpuLoad
from sparkd.model.snapshot import Unknown

FABRIC_BYTES_S = 1e6
"""Both directions together. Pings, SSH, logs and rendezvous stay under a tenth of it, one stream of a 7B model is above 10 MB/s."""
NEAR = 1.25
"""Up to so many times the power of waiting is waiting too. Recorded on an H200: 1.02 in an all-reduce whose peer is gone, 1.09 with 32
blocks that poll the card's memory, 1.12 with 132, 1.04 of a card that is still warm from a prefill; 2.1 in an all-reduce at work."""
FAR = 2.5
"""From so many times on it is work, where memory says nothing: a spin on GB10 was seen at 15 to 30 W, work at 45 to 90 W."""
TRAFFIC_PERCENT = 5.0
"""Of memory utilisation: recorded are 0 of a spin, 23 of a prefill, 100 of decoding."""
RUNS_PERCENT = 10.0
"""Below it no kernel runs for long."""
COMPILES_CORES = 0.1
COMPUTES_CORES = 1.5
"""Of one process, on nodes without GPUs: a loop that waits takes one core and no more."""


class Busy(StrEnum):
    WORKING = "working"
    SPINNING = "spinning"
    """Kernels run, and do nothing but wait."""
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sign:
    """What one thing says, and its figures in one clause, empty where there are none."""

    says: Busy
    words: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of one node of a group. `waiting_w`: the power of its GPUs while its ranks are loaded and idle."""

    name: str
    efforts: Efforts | Unknown | None
    gpu: GpuLoad | Unknown | None
    ranks: Mapping[str, int]
    """Owner of a process -> its rank."""
    pids: frozenset[int] | None = None
    """Of the processes of those ranks; None where they could not be read."""
    waiting_w: float | None = None
    shared: bool = False
    """Ranks of another deployment run there too."""
    peers: bool = True
    hardware: str = "gb10"


def together(signs: Sequence[tuple[str, Sign]]) -> Sign:
    """Of a group, by node: working as soon as one works; else known only where every one is."""
    says = {sign.says for _, sign in signs} or {Busy.UNKNOWN}
    first = next(one for one in (Busy.WORKING, Busy.UNKNOWN, Busy.SPINNING, Busy.IDLE) if one in says)
    return Sign(first, "; ".join(f"{name}: {sign.words}" for name, sign in signs if sign.words))


def of_node(node: Node) -> Sign:
    """Working by any sign; waiting only where GPU and fabric both say so."""
    computing = _cpu(node) if node.hardware == "cpu" else _gpu(node)
    signs = (computing, _fabric(node), *_compilers(node))
    said = ", ".join(sign.words for sign in signs if sign.words)
    if node.shared and said:
        said += ", and another deployment has a rank there: whose work it is cannot be told"
    if any(sign.says is Busy.WORKING for sign in signs):
        return Sign(Busy.WORKING, said)
    known = all(sign.says is not Busy.UNKNOWN for sign in signs)
    return Sign(computing.says if known else Busy.UNKNOWN, said)


# ----------------------------------------------------------------------------------------------------------------- GPU


def _gpu(node: Node) -> Sign:
    gpu = node.gpu
    if gpu is None or isinstance(gpu, Unknown):
        return Sign(Busy.UNKNOWN, f"its GPU cannot be read ({gpu.why})" if gpu is not None else "")
    if not gpu.cards:
        why = "there is no nvidia-smi" if gpu.smi == "missing" else f"nvidia-smi says: {gpu.said or 'nothing'}"
        return Sign(Busy.UNKNOWN, f"its GPU cannot be read ({why})")
    says, strangers = _of_cards(gpu, node.waiting_w), _strangers(node, gpu)
    words = _card_words(gpu, node.waiting_w)
    if strangers:
        words += f", other programs compute on it (pid {', '.join(map(str, strangers[:3]))})"
    unsure = says is Busy.WORKING and (node.shared or strangers)
    return Sign(Busy.UNKNOWN if unsure else says, words)


def _of_cards(gpu: GpuLoad, waiting_w: float | None) -> Busy:
    used, traffic = _most(card.utilization for card in gpu.cards), _most(card.memory_utilization for card in gpu.cards)
    times = gpu.power_w / waiting_w if gpu.power_w is not None and waiting_w else None
    runs, moves = used is None or used >= RUNS_PERCENT, traffic is not None and traffic >= TRAFFIC_PERCENT
    near = times is not None and times <= NEAR
    hard = moves or (times is not None and times >= FAR) or any(card.power_capped for card in gpu.cards)
    if runs and hard and not near and (moves or traffic is None):
        return Busy.WORKING
    if not runs or (near and not moves):
        return Busy.SPINNING if used is not None and runs else Busy.IDLE
    return Busy.UNKNOWN


def _strangers(node: Node, gpu: GpuLoad) -> list[int]:
    """Who else computes there, as far as the tool says who does: then its power may be theirs."""
    return sorted(set(gpu.pids or ()) - node.pids) if node.pids is not None else []


def _card_words(gpu: GpuLoad, waiting_w: float | None) -> str:
    used, traffic = _most(card.utilization for card in gpu.cards), _most(card.memory_utilization for card in gpu.cards)
    power, clock = gpu.power_w, _most(card.sm_mhz for card in gpu.cards)
    said = [f"GPU {used:.0f} %" if used is not None else "GPU"]
    if power is not None:
        said.append(f"{power:.0f} W" + (f" ({waiting_w:.0f} W when it waits)" if waiting_w else ""))
    if traffic is not None:
        said.append(f"memory {traffic:.0f} %")
    if clock is not None and any(card.power_capped for card in gpu.cards):
        said.append(f"{clock:.0f} MHz under its power limit")
    return " ".join(said)


def _most(figures: Iterable[float | None]) -> float | None:
    return max((one for one in figures if one is not None), default=None)


# -------------------------------------------------------------------------------------------------------------- fabric


def _fabric(node: Node) -> Sign:
    """A node that has no peers needs none. RDMA of nodes without GPUs is somebody else's."""
    if not node.peers:
        return Sign(Busy.IDLE)
    efforts = node.efforts
    if efforts is None or isinstance(efforts, Unknown):
        return Sign(Busy.UNKNOWN, f"its fabric cannot be read ({efforts.why})" if efforts is not None else "")
    rate = _bytes_per_s(efforts, ("net",) if node.hardware == "cpu" else ("net", "rdma"))
    if rate is None:
        return Sign(Busy.UNKNOWN)
    moves = rate >= FABRIC_BYTES_S
    return Sign(Busy.IDLE if not moves else Busy.UNKNOWN if node.shared else Busy.WORKING, _rate_words(rate))


def _bytes_per_s(efforts: Efforts, kinds: Sequence[str]) -> float | None:
    """Both directions of every way that both looks saw; None without any. A counter that went back was set to zero."""
    before = {(one.kind, one.name): one for one in efforts.before.flows}
    moved = [
        max(0, flow.received - was.received) + max(0, flow.sent - was.sent)
        for flow in efforts.now.flows
        if flow.kind in kinds and (was := before.get((flow.kind, flow.name))) is not None
    ]
    return sum(moved) / efforts.seconds if moved else None


def _rate_words(rate: float) -> str:
    if rate < 1e5:
        return "nothing on the fabric"
    return f"{rate / 1e9:.1f} GB/s on the fabric" if rate >= 1e9 else f"{rate / 1e6:.1f} MB/s on the fabric"


# ----------------------------------------------------------------------------------------------------------------- CPU


def _cpu(node: Node) -> Sign:
    """Of ranks without GPUs. What the ranks use is said by `_compilers`."""
    if node.efforts is None or isinstance(node.efforts, Unknown):
        return Sign(Busy.UNKNOWN)
    used = [Used.of(node.efforts, owner) for owner in node.ranks]
    if any(one.hardest >= COMPUTES_CORES for one in used):
        return Sign(Busy.WORKING)
    idle = bool(used) and all(one.known and one.cores < COMPILES_CORES for one in used)
    return Sign(Busy.IDLE if idle else Busy.UNKNOWN)


def _compilers(node: Node) -> list[Sign]:
    """What each rank uses; it is work where compilers do. Nothing else that takes CPU is one, nor its absence a sign of rest."""
    if node.efforts is None or isinstance(node.efforts, Unknown):
        return []
    signs = []
    for owner, rank in node.ranks.items():
        used = Used.of(node.efforts, owner)
        if used.compiling >= COMPILES_CORES:
            names = f" ({', '.join(used.compilers)})" if used.compilers else ""
            signs.append(Sign(Busy.WORKING, f"rank {rank} compiles{names} with {used.compiling:.1f} cores"))
        elif used.known:
            signs.append(Sign(Busy.IDLE, f"rank {rank} uses {used.cores:.1f} cores"))
    return signs
