"""Whoever reads a path of others does it in the one way: every other reader is named here, with the reason why it may."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SPARKD = Path(__file__).parents[3] / "sparkd"

OPENING = frozenset(
    (
        *("open", "fdopen", "mkstemp", "TemporaryFile", "read_text", "read_bytes"),
        *("walk", "fwalk", "rglob", "glob", "iglob", "iterdir", "listdir", "scandir"),
    )
)
"""Functions and methods that open, list or walk, whatever they are called on."""

OWN = "sparkd alone writes here: "
KERNEL = "the kernel's files: "
ROOT = "root alone writes here: "

MAY = {
    "node/regular.py": "the way",
    "node/emptying.py": "folders by descriptors, one name at a time; a program of its own that may import nothing",
    "node/folders.py": "folders by descriptors, counted (MOST_ENTRIES) and timed",
    "node/verbs/files.py": "by descriptors from the root on, without a link; a regular file, its first or last bytes",
    "node/listed.py": "the names of files of this package",
    "node/procfs.py": KERNEL + "/proc",
    "node/shm.py": KERNEL + "/proc/PID/fd; names of /dev/shm, whose size is bounded",
    "node/verbs/memory.py": KERNEL + "/proc/sys/vm/drop_caches",
    "node/probes/links.py": KERNEL + "/sys/class/net, /sys/class/infiniband",
    "node/probes/sockets.py": KERNEL + "/proc/PID/fd",
    "node/probes/engines.py": KERNEL + "/proc/PID/fd",
    "node/boot_memory.py": KERNEL + "/sys/block; and " + OWN + "the state folder",
    "node/probes/versions.py": KERNEL + "/proc, /sys; and " + ROOT + "/etc/os-release",
    "node/units.py": ROOT + "/run/systemd/transient",
    "node/probes/units.py": ROOT + "/etc/systemd/system",
    "node/probes/ipc.py": ROOT + "/etc/systemd",
    "node/probes/boots.py": ROOT + "/etc/apt",
    "node/owner.py": OWN + "the owner file, written",
    "node/verbs/ranks.py": OWN + "a file of secrets on a tmpfs, written",
    "reporting/marked_processes.py": KERNEL + "/proc",
    "journal/lock.py": OWN + "the state folder; /proc/locks",
    "journal/moment.py": KERNEL + "the boot id",
    "journal/spare.py": OWN + "the state folder",
    "journal/file.py": OWN + "the journal's own folder",
    "journal/store.py": OWN + "the journal, by SQLite",
    "journal/disk.py": OWN + "the journal, by SQLite",
    "background/parser_store.py": OWN + "listed only; what is read is read in the way",
    "api/captures.py": OWN + "listed only; what is read is read in the way",
    "act/capture.py": OWN + "listed to remove the oldest",
    "background/known_good_store.py": OWN + "written only; what is read is read in the way",
    "fleet/load_config.py": "names and stamps of the configuration, nothing is opened; its folder is the administrator's",
    "settings/files.py": "names of the configuration's folder, which is the administrator's",
    "engines/tables.py": "a file of this package",
    "background/parser_interview.py": "a file of this package",
    "drift/severities.py": "a file of this package",
    "api/page.py": "a file of this package",
    "runtimes/inside.py": "an archive in memory",
    "runtimes/shim.py": OWN + "ranks of the demo",
    "runtimes/shim_log.py": OWN + "ranks of the demo",
    "runtimes/shim_main.py": OWN + "ranks of the demo",
    "runtimes/shim_record.py": OWN + "ranks of the demo",
    "ctl/ending.py": "/dev/null",
    "ctl/known_good.py": "the client, for the person who called it and who can end it; it may import nothing of the node's",
    "engines/vllm/parser_script.py": "a program that runs inside of an engine's container",
    "api/listen.py": "no file: a listener's own open()",
    "act/power.py": "what a power hook says, in memory",
    "reporting/delivery.py": "a notice in memory, for a hook",
    "node/verbs/ask_parser.py": OWN + "what a unit prints, unlinked, of a size that the kernel bounds",
    "daemon/run.py": "no file: the journal's own open()",
}


def test_every_reader_reads_in_the_one_way_or_is_named_here() -> None:
    found = {
        str(path.relative_to(SPARKD)): lines
        for path in sorted(SPARKD.rglob("*.py"))
        if path.relative_to(SPARKD).parts[0] != "demo" and (lines := list(opening(path)))
    }
    unnamed = {f"{name}:{line}" for name, lines in found.items() if name not in MAY for line in lines}
    assert not unnamed, "read it with sparkd.base.files or sparkd.node.regular, or say in MAY who alone can write there"
    assert set(MAY) <= set(found), "what no longer opens a file needs no exception"


def opening(path: Path) -> Iterator[int]:
    """Lines of calls that open, list or walk something, but for `open(regular.opened(…))`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and (name := called(node)) in OPENING:
            first = node.args[0] if node.args else None
            if not (name == "open" and isinstance(first, ast.Call) and called(first) == "opened"):
                yield node.lineno


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
