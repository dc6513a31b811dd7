"""Kernel, driver, system and firmware -> their versions, one `NAME VALUE` a line; what a node does not have is left out."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Optional

DRIVER = "/proc/driver/nvidia/version"
FILES = (
    ("driver", DRIVER, re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s")),
    ("os", "/etc/os-release", re.compile(r'^PRETTY_NAME="?([^"\n]+)"?$', re.MULTILINE)),
    ("product", "/sys/class/dmi/id/product_name", re.compile(r"(.+)")),
    ("firmware", "/sys/class/dmi/id/bios_version", re.compile(r"(.+)")),
)


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    kernel = os.uname()
    found = [("kernel", kernel.release), ("architecture", kernel.machine)]
    for name, path, pattern in FILES:
        value = _read(path, pattern)
        if value:
            found.append((name, value))
    return "".join(f"{name} {value}\n" for name, value in found)


def _read(path: str, pattern: "re.Pattern[str]") -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = pattern.search(file.read(65536))
    except OSError:  # no such driver, no DMI on this board, or a container without /sys: not a version then
        return None
    return match.group(1).strip() if match else None
