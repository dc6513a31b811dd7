"""What single nodes have wrong, many things at once, and the checks that must each name theirs on that node alone.

spark2 is spoiled in two rounds and mended; spark1 stays as it must be. Nothing is started. Real are the mounts, links,
images, units and files; stand-ins are an `nvidia-smi` with the words of real ones, the driver's version file, a logind
that only has the name, and a node service whose clock is moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .commands import wait_for
from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon
from .layout import ENGINE_IMAGE
from .nodes import Node

IMAGE = "lab/built:1"
LAB = "{source: /lab, target: /lab, read_only: true}"
MOUNTS = ("/srv/few", "/srv/ro", "/srv/model")
HUB = "/srv/hf/hub/models--org--tiny"
SMI = "#!/bin/sh\necho '0, NVIDIA GB10, {driver}, P0, [N/A], {mhz} MHz, 96 %, 61, 0x0000000000000000, 3003 MHz'\n"
NO_DEVICES = "#!/bin/sh\necho 'No devices were found'\nexit 6\n"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {driver}  Release Build\n"
SHARDS = """\
import json, os, struct, sys
folder, names, size = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
os.makedirs(folder, exist_ok=True)
header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
for name in names:
    open(f"{folder}/{name}", "wb").write(struct.pack("<Q", len(header)) + header + bytes(size))
open(f"{folder}/config.json", "w").write("{}")
index = {"weight_map": {str(at): name for at, name in enumerate(["a.safetensors", "b.safetensors"])}}
json.dump(index, open(f"{folder}/model.safetensors.index.json", "w"))
"""
LATE = """\
import runpy, sys, time
real = time.time
time.time = lambda: real() + 120
sys.path.insert(0, "/usr/lib/sparkd")
runpy.run_module("sparkd.node", run_name="__main__", alter_sys=True)
"""
LATE_UNIT = "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -E -S /var/tmp/late.py\n"
NIGHTLY = "[Service]\nType=oneshot\nExecStart=/bin/true vllm serve /models/x --port 8000\n"
TIMER = "[Timer]\nOnCalendar=03:00\n[Install]\nWantedBy=timers.target\n"
STAND_IN = "#!/bin/sh\nwhile sleep 1; do :; done\n"
METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
KILLERS = {"nohang": "/var/tmp/nohang", "logind": "/var/tmp/systemd-logind"}

Said = list[tuple[str, str | None, str, str]]


def files() -> dict[str, str]:
    """`wide` as on a Spark, with a model of the hub; `plain` with a folder of its own; `bare` without containers."""
    env = {"NCCL_IB_GID_INDEX": "3"}
    on_nodes = {
        "spark1": {"VLLM_HOST_IP": "10.78.0.11"},
        "spark2": {"VLLM_HOST_IP": "10.78.0.11", "NCCL_IB_HCA": "rocep1s0f1"},
    }
    wide = deployment(name="wide", image=IMAGE, model="org/tiny", env=env, node_env=on_nodes)
    wide = wide.replace("hardware: cpu", "hardware: gb10").replace("gpus: null", "gpus: null, privileged: false")
    mounts = ", ".join(f"{{source: {one}, target: {one}}}" for one in MOUNTS)
    hub = "{source: /srv/hf, target: /root/.cache/huggingface}"
    plain = deployment(name="plain", model="/srv/model/tiny").replace("gpus: null", "gpus: null, ipc: private")
    return {
        "sparkd.yaml": cluster(FAST_POLICY),
        f"deployments/{NAME}.yaml": deployment(),
        "deployments/wide.yaml": wide.replace(LAB, f"{LAB}, {hub}, {mounts}"),
        "deployments/plain.yaml": plain.replace(LAB, f"{LAB}, {mounts}"),
        "deployments/bare.yaml": deployment(name="bare", process=True),
    }


def said(daemon: Daemon, *names: str) -> Said:
    """(check, node, status, text) of everything beside `ok`."""
    runs = [json.loads(daemon.ctl("check", name, "--json", check=False).stdout)["checks"] for name in names]
    rows = [row for run in runs for row in run if row["code"] != "boot"]  # it says how long ago, and that passes
    return [(row["code"], row["node"], row["status"], row["text"]) for row in rows if row["status"] != "ok"]


def of(found: Said, code: str, node: str | None, words: str) -> str:
    """The status of the one row that says so; `ok` where none does."""
    return next((row[2] for row in found if row[:2] == (code, node) and words in row[3]), "ok")


@pytest.fixture
def prepared(fast: Daemon) -> Iterator[Daemon]:
    for node in fast.lab.nodes:
        node.run(["mkdir", "-p", *MOUNTS, f"{HUB}/refs"])
        node.run(["python3", "-c", SHARDS, f"{HUB}/snapshots/abc", "a.safetensors,b.safetensors", "64"])
        node.write(f"{HUB}/refs/main", "abc")
        node.run(["python3", "-c", SHARDS, "/srv/model/tiny", "a.safetensors,b.safetensors", "64"])
        node.write("/usr/local/bin/nvidia-smi", SMI.format(driver="580.95.05", mhz=2411), 0o755)
        node.run(["mount", "-t", "tmpfs", "tmpfs", "/proc/driver"])
        node.write("/proc/driver/nvidia/version", VERSION.format(driver="580.95.05"))
        node.run(["systemctl", "restart", "sparkd-node.service"])  # its view of /proc is of its own start
        node.docker("tag", ENGINE_IMAGE, IMAGE)
        node.add_user("ranks")  # whom `bare` names
    fast.lab.configure(files())
    fast.head.run(["systemctl", "restart", "sparkd.service"], timeout_s=60)
    yield fast
    mend(fast.worker)
    for node in fast.lab.nodes:
        node.run(["umount", "/proc/driver"])
        node.run(["rm", "-rf", *MOUNTS, "/srv/hf", "/usr/local/bin/nvidia-smi"])
        node.docker("rmi", IMAGE, check=False)


def spoil(node: Node) -> None:
    for path, options in (("/srv/few", "size=6g,nr_inodes=500"), ("/srv/ro", "size=6g,ro")):
        node.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path])
    node.docker("run", "-d", "--name", "chatty", ENGINE_IMAGE, "sleep", "infinity")
    node.run(["ip", "link", "add", "enP2p1s0f1np1", "type", "veth", "peer", "name", "veth-half"])
    node.run(["rm", f"{HUB}/refs/main", "/srv/model/tiny/b.safetensors"])
    archive = f"tar -C / -c bin/busybox 2>/dev/null || tar -C /etc -c hostname) | docker import --platform linux/arm64 - {IMAGE}"
    node.run(["sh", "-c", f"({archive}"])
    node.write("/usr/local/bin/nvidia-smi", NO_DEVICES, 0o755)
    node.write("/proc/driver/nvidia/version", VERSION.format(driver="580.82.07"))
    node.write("/etc/os-release", 'PRETTY_NAME="Another GNU/Linux 12"\n')
    node.write("/var/tmp/late.py", LATE)
    node.write("/etc/systemd/system/sparkd-node.service.d/late.conf", LATE_UNIT)
    node.write("/etc/systemd/system/nightly.service", NIGHTLY)
    node.write("/etc/systemd/system/nightly.timer", TIMER)
    node.write("/etc/apt/apt.conf.d/99reboot", 'Unattended-Upgrade::Automatic-Reboot "true";\n')
    node.write("/run/reboot-required", "")
    node.write("/etc/nohang/nohang.conf", "soft_threshold_min_mem = 99 %\n")
    node.run(["systemctl", "set-environment", f"{METHOD}=fork"])
    node.run(["systemctl", "daemon-reload"])
    node.run(["systemctl", "enable", "--quiet", "nightly.timer"])
    node.run(["systemctl", "restart", "sparkd-node.service"])
    node.run(["mount", "-o", "remount,size=100m", "/dev/shm"])
    for path in KILLERS.values():
        node.write(path, STAND_IN, 0o755)
        node.run(["systemd-run", "--quiet", "--collect", f"--unit=lab-{path.rpartition('/')[2]}", path])


SPOILED: list[tuple[str, str, str]] = [
    ("disk", "fail", "/srv/few on spark2 has"),
    ("disk", "fail", "/srv/ro on spark2 is mounted read-only"),
    ("disk", "warn", "what chatty on spark2 says is kept in a file without a limit"),
    ("link", "warn", "the other half of enp1s0f1np1 on spark2, is down"),
    ("link", "fail", "VLLM_HOST_IP is 10.78.0.11, which is no address of spark2"),
    ("link", "fail", "NCCL_IB_HCA names rocep1s0f1, but spark2 has no such RDMA device"),
    ("model", "warn", "no refs/main"),
    ("model", "fail", "1 of 2 weight files that the index names are missing on spark2"),
    ("image", "fail", "is made for arm64, the node is amd64"),
    ("image", "fail", "another image on spark2"),
    ("gpu", "fail", "580.82.07 is loaded on spark2, but the driver has no usable GPU"),
    ("parity", "warn", "NVIDIA driver on spark2 is 580.82.07, elsewhere 580.95.05"),
    ("parity", "warn", "system on spark2 is Another GNU/Linux 12"),
    ("flags", "fail", f"systemd on spark2 gives every unit {METHOD}=fork"),
    ("clock", "warn", "s ahead of that of spark1"),
    ("second-supervisor", "fail", "nightly.service on spark2 would start these ranks as well (port 8000)"),
    ("second-supervisor", "warn", "upgrades reboot spark2 by themselves"),
    ("pressure", "warn", "nohang on spark2 ends processes below"),
    ("shm", "warn", "/dev/shm on spark2 has"),
    ("shm", "warn", "when user ranks logs out of spark2"),
]
"""(check, status, words) in the first round."""
AGAIN: list[tuple[str, str, str]] = [
    ("gpu", "warn", "the GPU of spark2 works at 507 MHz under full load"),
    ("model", "fail", "not the same model"),
    ("image", "fail", "spark2"),
    ("second-supervisor", "warn", "spark2 waits for a reboot after an upgrade"),
    ("link", "warn", "spark1 (10.78.0.11) does not answer spark2 over the fabric"),
]
"""In the second."""
OF_THE_FILE = [("container-spec", "/dev/infiniband"), ("container-spec", "lock memory"), ("shm", "ipc: private")]
NAMES = ("wide", "plain", "bare")


def spoil_again(node: Node) -> None:
    """What the first round would have hidden, or was hidden by."""
    node.write("/usr/local/bin/nvidia-smi", SMI.format(driver="580.95.05", mhz=507), 0o755)
    node.write(f"{HUB}/refs/main", "abc")
    node.run(["python3", "-c", SHARDS, "/srv/model/tiny", "a.safetensors,b.safetensors", "128"])
    node.docker("rmi", "-f", IMAGE)
    node.run(["rm", "/etc/apt/apt.conf.d/99reboot"])
    node.run(["iptables", "-w", "-A", "INPUT", "-s", "10.78.0.11", "-p", "icmp", "-j", "DROP"])


def mend(node: Node) -> None:
    node.run(["mount", "-o", "remount,size=2g", "/dev/shm"])
    node.run(["iptables", "-w", "-F", "INPUT"])
    for path in ("/srv/few", "/srv/ro"):
        node.run(["umount", path], check=False)
    node.run(["ip", "link", "del", "enP2p1s0f1np1"], check=False)
    node.docker("rm", "-f", "chatty", check=False)
    node.docker("tag", ENGINE_IMAGE, IMAGE)
    for path in KILLERS.values():
        node.run(["systemctl", "stop", f"lab-{path.rpartition('/')[2]}.service"], check=False)
    node.run(["systemctl", "disable", "--quiet", "nightly.timer"], check=False)
    node.run(["systemctl", "unset-environment", METHOD])
    made = (
        "/etc/apt/apt.conf.d/99reboot",
        "/run/reboot-required",
        "/etc/nohang",
        "/var/tmp/late.py",
        *KILLERS.values(),
    )
    units = ("nightly.service", "nightly.timer", "sparkd-node.service.d")
    node.run(["rm", "-rf", *made, *(f"/etc/systemd/system/{one}" for one in units)])
    node.run(["systemctl", "daemon-reload"])
    node.run(["systemctl", "restart", "sparkd-node.service"])
    node.run(["ln", "-sf", "../usr/lib/os-release", "/etc/os-release"])
    node.write("/usr/local/bin/nvidia-smi", SMI.format(driver="580.95.05", mhz=2411), 0o755)
    node.write("/proc/driver/nvidia/version", VERSION.format(driver="580.95.05"))
    node.write(f"{HUB}/refs/main", "abc")
    node.run(["python3", "-c", SHARDS, "/srv/model/tiny", "a.safetensors,b.safetensors", "64"])


def statuses(daemon: Daemon, wanted: list[tuple[str, str, str]], node: str = "spark2") -> list[tuple[str, str, str]]:
    """The same table as it was found there."""
    found = said(daemon, *NAMES)
    return [(code, of(found, code, node, words), words) for code, _, words in wanted]


def test_every_check_names_its_own_trouble_on_its_node(prepared: Daemon) -> None:
    well = said(prepared, *NAMES)
    of_file = [(code, of(well, code, None, words)) for code, words in OF_THE_FILE]
    assert of_file == [("container-spec", "fail"), ("container-spec", "fail"), ("shm", "warn")]
    assert of(well, "link", "spark2", "runs at 10 Gb/s") == "warn", "a veth is slower than a Spark's cable"
    own = {("link", "spark1"), ("link", "spark2")}
    others = [row for row in well if row[1] is not None and row[:2] not in own]
    assert others == [], "what is right is not complained of"

    spoil(prepared.worker)
    seen: list[tuple[str, str, str]] = []

    def moved(wanted: list[tuple[str, str, str]], code: str) -> bool:
        """The clock and the echoes are those of the loop's last look."""
        seen[:] = statuses(prepared, wanted)
        return next(status for one, status, _ in seen if one == code) != "ok"

    wait_for("the clock of spark2 to be read", lambda: moved(SPOILED, "clock"), 30, every_s=1.0)
    assert seen == [(code, status, words) for code, status, words in SPOILED]
    elsewhere = [row for row in said(prepared, *NAMES) if row[1] == "spark1" and row[:2] not in own]
    assert elsewhere == [], "found where it is, and there alone"

    spoil_again(prepared.worker)
    wait_for("the echoes to be lost", lambda: moved(AGAIN, "link"), 30, every_s=1.0)
    assert seen == [(code, status, words) for code, status, words in AGAIN]

    mend(prepared.worker)

    def mended() -> bool:
        return said(prepared, *NAMES) == well

    wait_for("everything to be well again", mended, 30, every_s=1.0)
