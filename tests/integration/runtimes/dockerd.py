"""A real dockerd of the tests' own, with one image: busybox, imported from a tar made here."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import aiohttp
import anyio

IMAGE = "sparkd-test/busybox:1"
BUSYBOX = Path("/bin/busybox")
APPLETS = ("cat", "echo", "env", "head", "kill", "seq", "sh", "sleep", "true", "tr", "yes", "trap")


def missing() -> str | None:
    """Why no dockerd can be started here, in one sentence."""
    if os.geteuid() != 0:
        return "a dockerd of the test's own needs root"
    if shutil.which("dockerd") is None:
        return "dockerd is not installed (Debian: docker.io)"
    return None if BUSYBOX.exists() else f"{BUSYBOX} is not there (Debian: busybox-static)"


class Dockerd:
    """Data, sockets and runtime files are all under `folder`. It may be started again after `stop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = ["dockerd", "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"]
        argv += ["--pidfile", f"{self.folder}/pid", "--host", f"unix://{self.socket}", "--storage-driver", "overlay2"]
        argv += ["--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"]
        argv += ["--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/sparkd-test-{os.getpid()}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        ends = time.monotonic() + 60
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"dockerd does not answer:\n{(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """SIGTERM: running containers die with it, as with stock settings."""
        assert self.process is not None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.process = None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def close(self) -> None:
        """Ends it and leaves no mount and no cgroup behind."""
        if self.process is not None:
            self.stop()
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(self.folder)]):
            subprocess.run(["umount", "--lazy", mount], check=False)
        groups = Path("/sys/fs/cgroup")
        name = f"sparkd-test-{os.getpid()}"
        for top in [groups / name, *groups.glob(f"*/{name}")]:
            for folder, _, _ in os.walk(top, topdown=False):
                os.rmdir(folder)

    def _answers(self) -> bool:
        return self.socket.exists() and anyio.run(self._ping)

    async def _ping(self) -> bool:
        try:
            async with self.session() as session, session.get("http://docker/_ping") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self.socket)), timeout=aiohttp.ClientTimeout(total=30)
        )

    async def import_image(self) -> None:
        repository, _, tag = IMAGE.partition(":")
        url = f"http://docker/v1.40/images/create?fromSrc=-&repo={repository}&tag={tag}"
        async with self.session() as session, session.post(url, data=_busybox_tar()) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()


def _busybox_tar() -> io.BytesIO:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        tar.add(BUSYBOX, "bin/busybox")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    whole.seek(0)
    return whole
