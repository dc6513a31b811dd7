"""A node's root file system and the lab's own files -> the image that node containers start from."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from .layout import ASSETS, FABRIC, MANAGEMENT, MANAGEMENT_LINK, PLANS

# No devices, seats or consoles in a container; and no timer may wake Debian's own housekeeping during a measurement.
MASKED = (
    "systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service", "getty.target", "console-getty.service", "systemd-logind.service",
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
)  # fmt: skip
# target -> the lab's units it wants
ENABLED = {
    "sysinit.target": ("lab-links.service", "lab-cgroups.service"),
    "multi-user.target": ("lab-host-keys.service",),
}


def write_overlay(into: Path) -> None:
    """Everything a node has beyond its root file system, as a tree owned by root."""
    shutil.copytree(ASSETS / "node", into, dirs_exist_ok=True)
    units = into / "etc/systemd/system"
    for name in MASKED:
        (units / name).symlink_to("/dev/null")
    for target, names in ENABLED.items():
        wants = units / f"{target}.wants"
        wants.mkdir()
        for name in names:
            (wants / name).symlink_to(f"../{name}")
    tables = into / "etc/sparkd-lab"
    tables.mkdir(parents=True)
    links = [(plan.address, MANAGEMENT_LINK) for plan in PLANS]
    links += [(plan.data_address, plan.fabric_link) for plan in PLANS]
    (tables / "links").write_text("".join(f"{address} {name}\n" for address, name in links))
    (tables / "gateway").write_text(f"{MANAGEMENT.bench}\n")
    (into / "usr/bin").mkdir(parents=True, exist_ok=True)
    (into / "usr/bin/sparkd").symlink_to("/opt/sparkd/bin/sparkd")
    for mount in ("lab/vllm", "lab/model", "lab/images", "etc/sparkd/deployments"):
        (into / mount).mkdir(parents=True)
    for folder, _, files in os.walk(into):
        os.chown(folder, 0, 0)
        os.chmod(folder, 0o755)
        for name in files:
            os.chown(os.path.join(folder, name), 0, 0, follow_symlinks=False)


def tree_hash(root: Path) -> str:
    """Twelve hex digits that change with any path, mode, link or content under `root`."""
    digest = hashlib.sha256(f"{MANAGEMENT} {FABRIC}".encode())
    for path in sorted(root.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(root)} {path.lstat().st_mode:o}\n".encode() + content)
    return digest.hexdigest()[:12]
