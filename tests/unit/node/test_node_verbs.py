"""The verbs, on real files, segments and processes: what they do, and above all what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkd.node import node as node_module
from sparkd.node.config import Config
from sparkd.node.verbs import memory

from .service import OWNER, Connection, Service, identity, wait_for


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    yield process
    process.kill()
    process.wait()


def target(node: Connection, pid: int, **other: Any) -> dict[str, Any]:
    hello = node.ask("hello")["result"]
    start_ticks = identity(pid)[1]
    identified = {"boot_id": hello["boot_id"], "pid1_ticks": hello["pid1_ticks"], "start_ticks": start_ticks}
    return {"pid": pid, "signal": "SIGKILL", **identified, **other}


# --------------------------------------------------------------------------------------------------------------- signal


@pytest.mark.parametrize("number", ["SIGKILL", 9])
def test_a_signal_reaches_its_process(node: Connection, victim: subprocess.Popen[bytes], number: object) -> None:
    args = target(node, victim.pid, signal=number)
    assert node.verb("signal", **args)["result"] == "sent"
    assert victim.wait(10) == -signal.SIGKILL
    assert node.verb("signal", **args)["result"] == "gone"


@pytest.mark.parametrize("wrong", ["start_ticks", "pid1_ticks", "boot_id"])
def test_f37_another_identity_is_not_signalled(node: Connection, victim: subprocess.Popen[bytes], wrong: str) -> None:
    args = target(node, victim.pid)
    args[wrong] = OWNER if wrong == "boot_id" else args[wrong] + 1
    answer = node.verb("signal", **args)
    assert answer["code"] == "refused"
    assert victim.poll() is None
    assert identity(victim.pid)[0] in "RS"


@pytest.mark.parametrize("signal_", ["SIGSTOP", "KILL", 19, 0, True, None, "9"])
def test_only_ending_signals(node: Connection, victim: subprocess.Popen[bytes], signal_: object) -> None:
    assert node.verb("signal", **target(node, victim.pid, signal=signal_))["code"] == "usage"
    assert victim.poll() is None


@pytest.mark.parametrize("pid", [1, 0, -1, "7", 1 << 40])
def test_pids_that_are_nobodys_business(node: Connection, pid: object) -> None:
    assert node.verb("signal", **{**target(node, os.getpid()), "pid": pid})["code"] == "usage"


def test_the_service_does_not_end_itself(service: Service, node: Connection) -> None:
    assert service.process is not None
    assert node.verb("signal", **target(node, service.process.pid))["code"] == "refused"
    assert node.ask("hello")["ok"]


# ----------------------------------------------------------------------------------------------------------- unlink_shm


@pytest.fixture
def segments() -> Iterator[dict[str, Path]]:
    """Three segments by purpose; all removed in the end."""
    mark = uuid.uuid4().hex[:8]
    found = {name: Path(f"/dev/shm/psm_sparkdtest{mark}{name}") for name in ("old", "young", "held")}
    found["semaphore"] = Path(f"/dev/shm/sem.mp-sparkdtest{mark}")
    for path in found.values():
        path.write_bytes(b"x" * 64)
    yield found
    for path in found.values():
        path.unlink(missing_ok=True)


def test_only_what_nobody_holds_is_unlinked(node: Connection, segments: dict[str, Path]) -> None:
    names = [path.name for path in segments.values()] + ["psm_sparkdtest_absent"]
    young = node.verb("unlink_shm", names=names)["result"]
    assert set(young.values()) == {"young", "absent"}
    assert all(path.exists() for path in segments.values())
    with segments["held"].open("rb"):
        result = node.verb("unlink_shm", names=[name for name in names if "young" not in name], min_age_s=0)["result"]
    assert result == {
        segments["old"].name: "unlinked",
        segments["held"].name: "mapped",
        segments["semaphore"].name: "unlinked",
        "psm_sparkdtest_absent": "absent",
    }
    assert {name for name, path in segments.items() if path.exists()} == {"young", "held"}


def test_a_segment_from_the_future_is_young(node: Connection, segments: dict[str, Path]) -> None:
    """The clock was set back since it was made."""
    os.utime(segments["old"], (time.time() + 1e6,) * 2)
    assert node.verb("unlink_shm", names=[segments["old"].name])["result"] == {segments["old"].name: "young"}


def test_an_old_date_does_not_make_a_segment_old(node: Connection, segments: dict[str, Path]) -> None:
    """The data may be old; the inode was changed just now."""
    os.utime(segments["old"], (0, 0))
    assert node.verb("unlink_shm", names=[segments["old"].name])["result"] == {segments["old"].name: "young"}


@pytest.mark.parametrize("name", ["passwd", "../etc/passwd", "psm_/../x", "psm_", "sem.x", "psm_a/b", "", 7])
def test_only_the_engines_names(node: Connection, name: object) -> None:
    assert node.verb("unlink_shm", names=[name], min_age_s=0)["code"] == "usage"


# ------------------------------------------------------------------------------------------------------------ read_file


@pytest.fixture
def root(unstarted: Service) -> Path:
    """A read root of a running service, with files in it."""
    root = unstarted.folder / "log"
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/file").write_text("0123456789")
    secret = unstarted.folder / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (root / "link").symlink_to("deep/er/file")
    (root / "link-out").symlink_to("../secret/key")
    (root / "folder-out").symlink_to("../secret")
    (root / "deep-link").symlink_to("deep")
    (unstarted.folder / "alias").symlink_to("log")
    os.mkfifo(root / "fifo")
    unstarted.config.write_text(json.dumps({"read_roots": [str(root), str(unstarted.folder / "alias")]}))
    unstarted.start()
    return root


@pytest.fixture
def reader(unstarted: Service, root: Path) -> Iterator[Connection]:
    with unstarted.claimed() as connection:
        yield connection


def test_a_file_is_read_from_either_end(reader: Connection, root: Path) -> None:
    path = str(root / "deep/er/file")
    whole = reader.verb("read_file", path=path)["result"]
    assert (whole["text"], whole["size_bytes"], whole["offset"]) == ("0123456789", 10, 0)
    assert whole["mtime"] == pytest.approx(os.stat(path).st_mtime)
    assert reader.verb("read_file", path=path, max_bytes=3)["result"]["text"] == "012"
    tail = reader.verb("read_file", path=path, max_bytes=3, tail=True)["result"]
    assert (tail["text"], tail["offset"]) == ("789", 7)


@pytest.mark.parametrize(
    "name", ["link", "link-out", "folder-out/key", "deep-link/er/file", "fifo", "deep", "deep/er/file/x"]
)
def test_links_and_what_is_no_file_are_refused(reader: Connection, root: Path, name: str) -> None:
    answer = reader.verb("read_file", path=str(root / name))
    assert answer["code"] == "refused", answer
    assert "secret" not in answer["error"]


def test_a_root_that_is_a_link_is_refused(reader: Connection, root: Path) -> None:
    assert reader.verb("read_file", path=str(root.parent / "alias/deep/er/file"))["code"] == "refused"


def test_what_is_outside_or_written_oddly_is_not_read(reader: Connection, root: Path) -> None:
    assert reader.verb("read_file", path=str(root / "none"))["code"] == "not_found"
    for path in ("/etc/passwd", f"{root}ger/x", str(root.parent / "secret/key")):
        assert reader.verb("read_file", path=path)["code"] == "refused"
    odd = ["/../secret/key", "/deep/../deep/er/file", "//deep/er/file", "/deep/er/", "/a\0b"]
    for written in [*(f"{root}{name}" for name in odd), "deep", "", 7]:
        assert reader.verb("read_file", path=written)["code"] == "usage"


def test_at_most_four_mebibytes(reader: Connection, root: Path) -> None:
    (root / "big").write_bytes(b"x" * (5 << 20))
    assert reader.verb("read_file", path=str(root / "big"), max_bytes=(4 << 20) + 1)["code"] == "usage"
    assert len(reader.verb("read_file", path=str(root / "big"), max_bytes=4 << 20)["result"]["text"]) == 4 << 20


def test_bytes_that_are_not_text(reader: Connection, root: Path) -> None:
    (root / "binary").write_bytes(b"a\xff\x00\xe2\x82")
    assert reader.verb("read_file", path=str(root / "binary"))["result"]["text"] == "a\ufffd\0\ufffd"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"read_roots": "/var/log"}',
        '{"read_roots": ["var"]}',
        '{"read_roots": ["/a/.."]}',
        '{"roots": []}',
        '{"state_dir": 7}',
    ],
)
def test_a_broken_configuration_costs_only_read_file(unstarted: Service, content: str) -> None:
    unstarted.config.write_text(content)
    unstarted.start()
    with unstarted.claimed() as node:
        answer = node.verb("read_file", path="/var/log/x")
        assert answer["code"] == "failed"
        assert str(unstarted.config) in answer["error"]
        assert node.ask("hello")["result"]["config_problem"]
        assert "text" in node.probe({"name": "boot"})["boot"]


def test_without_a_configuration_nothing_is_read(node: Connection) -> None:
    answer = node.verb("read_file", path="/etc/passwd")
    assert answer["code"] == "refused"
    assert "none" in answer["error"]


# ---------------------------------------------------------------------------------------------------------- drop_caches


def test_drop_caches_writes_the_mode_and_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's switch is replaced by a file: dropping this machine's caches would slow down all else on it."""
    switch = tmp_path / "drop_caches"
    switch.touch()
    monkeypatch.setattr(memory, "DROP_CACHES", str(switch))
    node = node_module.this(Config(state_dir=str(tmp_path)))
    result = memory.drop_caches(node, OWNER, {"mode": 3}, 60)
    assert switch.read_text() == "3\n"
    for moment in ("before", "after"):
        assert all(result[moment][name] > 1 << 20 for name in ("free_bytes", "cached_bytes"))


@pytest.mark.parametrize("mode", [0, 2, 4, "1", None, True])
def test_drop_caches_has_two_modes(node: Connection, mode: object) -> None:
    assert node.verb("drop_caches", mode=mode)["code"] == "usage"


def test_waiting_for_nothing(victim: subprocess.Popen[bytes], node: Connection) -> None:
    """SIGTERM is only sent; whether the process ends is for the next look to see."""
    assert node.verb("signal", **target(node, victim.pid, signal="SIGTERM"))["result"] == "sent"
    wait_for("it ended", lambda: victim.poll() == -signal.SIGTERM)


def test_without_a_configuration_the_head_says_what_may_be_read(node: Connection, tmp_path: Path) -> None:
    (tmp_path / "marker").write_text("m")
    asked = {"path": str(tmp_path / "marker"), "roots": [str(tmp_path)]}
    assert node.verb("read_file", **asked)["result"]["text"] == "m"
    assert node.verb("read_file", path="/etc/passwd", roots=[str(tmp_path)])["code"] == "refused"
    assert node.verb("read_file", path="/etc/passwd", roots=["etc"])["code"] == "usage"


def test_the_roots_of_a_node_are_wider_for_no_head(reader: Connection) -> None:
    assert reader.verb("read_file", path="/etc/passwd", roots=["/etc"])["code"] == "refused"
