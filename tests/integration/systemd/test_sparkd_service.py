"""sparkd.service as systemd's own tools see it, and what its sandbox leaves a Python daemon able to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparkd.node.patience import MOST_STUCK
from sparkd.node.server import MAX_CONNECTIONS
from sparkd.node.tasks import MAX_TASKS

UNIT = Path(__file__).parents[3] / "deploy" / "sparkd.service"
NODE_UNIT = UNIT.with_name("sparkd-node.service")
ANALYZE = shutil.which("systemd-analyze")
EXPOSURE = 2.0

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


def settings(file: Path = UNIT) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        if "=" in line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def analyze(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ANALYZE), *argv], check=False, capture_output=True, text=True, timeout=60)


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    for program, code in ((sys.executable, 0), ("/opt/sparkd/bin/not-there", 1)):
        copy = tmp_path / UNIT.name
        copy.write_text(UNIT.read_text().replace("/opt/sparkd/bin/sparkd", program))
        ran = analyze("verify", "--man=no", str(copy))
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if UNIT.name in line]
        assert (ran.returncode, bool(said)) == (code, bool(code)), said


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_unit_of_the_nodes(tmp_path: Path) -> None:
    socket = UNIT.with_name("sparkd-node.socket")
    shutil.copy(socket, tmp_path)
    copy = tmp_path / "sparkd-node.service"
    copy.write_text(NODE_UNIT.read_text().replace("/usr/lib/sparkd", str(tmp_path)))
    ran = analyze("verify", "--man=no", str(copy))
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if copy.name in line]
    assert (ran.returncode, said) == (0, [])


def test_the_node_service_has_less_than_what_would_hurt_an_engine() -> None:
    """Twice what was measured at most, and threads for all that may hang at once."""
    unit = settings(NODE_UNIT)
    assert unit["MemoryMax"] == ["768M"]
    assert int(unit["TasksMax"][0]) >= 2 * MAX_TASKS + MOST_STUCK + MAX_CONNECTIONS


@needs_systemd
def test_the_sandbox_is_as_tight_as_promised() -> None:
    ran = analyze("security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}", str(UNIT))
    assert ran.returncode == 0, ran.stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", ran.stdout)
    assert found is not None
    assert float(found[1]) <= EXPOSURE


def test_the_unit_keeps_its_promises() -> None:
    unit = settings()
    expected = {
        "Type": "notify",
        "User": "sparkd",
        "Group": "sparkd-svc",
        "ExecStart": "/opt/sparkd/bin/sparkd run",
        "ExecReload": '/opt/sparkd/bin/sparkd ctl reload -m "systemctl reload"',
        "Restart": "always",
        "StartLimitIntervalSec": "0",
        "RestartPreventExitStatus": "2 7",
        "RuntimeDirectory": "sparkd",
        "RuntimeDirectoryMode": "0755",
        "StateDirectory": "sparkd",
        "ConfigurationDirectory": "sparkd",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
    }
    assert {key: unit[key] for key in expected} == {key: [value] for key, value in expected.items()}
    assert "docker" in unit["SupplementaryGroups"][0].split()
    assert int(unit["WatchdogSec"][0]) >= 60
    assert "ProcSubset" not in unit  # it would hide the boot id
    assert "PrivateUsers" not in unit  # everybody on the socket would be nobody


UNDER_MDWE = """
import ctypes, sys
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    print("kernel too old"); sys.exit(77)
import mmap
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    pass
else:
    sys.exit("memory that is writable and executable was given out")
import sqlite3, ssl, aiodocker, aiohttp.web, anyio, asyncssh, httpx, prometheus_client, pydantic, ruamel.yaml, structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
key = Ed25519PrivateKey.generate()
key.public_key().verify(key.sign(b"x"), b"x")
for cipher in (AESGCM(bytes(32)), ChaCha20Poly1305(bytes(32))):
    assert cipher.decrypt(bytes(12), cipher.encrypt(bytes(12), b"x", b""), b"") == b"x"
ssl.create_default_context()
sqlite3.connect(":memory:").execute("select json('[1]')").fetchone()
asyncssh.generate_private_key("ssh-ed25519").export_private_key()

async def over_ssh():
    async def hello(process):
        process.stdout.write(await process.stdin.read()); process.exit(0)
    host, user = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    mine = asyncssh.import_authorized_keys(user.export_public_key().decode())
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[host], authorized_client_keys=mine,
                                   process_factory=hello)
    known = asyncssh.import_known_hosts("* " + host.export_public_key().decode())
    async with asyncssh.connect("127.0.0.1", server.get_port(), known_hosts=known, client_keys=[user], username="x",
                                config=None) as connection:
        answer = await connection.run("x", input="over ssh")
    server.close()
    assert answer.stdout == "over ssh", answer

anyio.run(over_ssh)
print("fine")
"""


def test_every_library_works_without_writable_code(tmp_path: Path) -> None:
    """MemoryDenyWriteExecute: cffi's callbacks once needed memory that is writable and executable."""
    ran = subprocess.run(
        [sys.executable, "-c", UNDER_MDWE], check=False, capture_output=True, text=True, timeout=100, cwd=tmp_path
    )
    if ran.returncode == 77:
        pytest.skip("PR_SET_MDWE needs Linux 6.3")
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr
