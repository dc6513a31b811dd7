"""Everything of the daemon that reads what people put there, with something odd in its place: it ends, and the loop goes on."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import asyncssh
import pytest
from aiohttp.test_utils import make_mocked_request
from odd_files import DEEP, ODD, counted_reads, endless, fifo, nested, sparse

from sparkd.act.hands import ActionFailed, Hands
from sparkd.api import captures
from sparkd.api.gate import Gate
from sparkd.api.service import Forbidden
from sparkd.background import parser_store
from sparkd.background.known_good_store import NotRead, Store
from sparkd.background.recording import _source
from sparkd.base import files
from sparkd.base.errors import HostError, SparkdError
from sparkd.base.redact import Redactor
from sparkd.fleet import load_config
from sparkd.hosts import SshHost, ssh
from sparkd.importers import read as importing
from sparkd.importers.read import NotReadable, read_side
from sparkd.model.config import Cluster, Deployment, Node, Webhook
from sparkd.node import patience, regular
from sparkd.reporting import delivery

pytestmark = pytest.mark.timeout(60)

ENDS_S = 20.0
MOST_READ = 4 * parser_store.MOST_BYTES
DEPLOYMENT = Deployment(name="d", engine="vllm", nodes=("a",))

Reader = Callable[[Path], Awaitable[object]]
"""Reads what lies at the path in the way that the daemon does it. Raises SparkdError or OSError."""


async def _secret(path: Path) -> object:
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), secrets={"TOKEN": str(path)})
    return await Hands(Cluster(cluster="c", nodes={}), deployment, "us", {}, {}, path.parent).secret("TOKEN")


async def _redact(path: Path) -> object:
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), secrets={"TOKEN": str(path)})
    return await files.aside(partial(Redactor.of, deployment))


async def _token(path: Path) -> object:
    request = make_mocked_request("POST", "/", headers={"Authorization": "Bearer 0123456789abcdef"})
    return await Gate(unix=False, token_file=str(path)).writer(request)


async def _webhook(path: Path) -> object:
    hook = Webhook(url="http://127.0.0.1:9/", secret_file=str(path))
    await delivery.post(hook, b"{}", deadline_s=1.0)
    return None


async def _cluster(path: Path) -> object:
    return await load_config.load(path)


async def _deployment(path: Path) -> object:
    """One that is none breaks itself alone."""
    (path.parent / "deployments").mkdir()
    path.rename(path.parent / "deployments/x.yaml")
    path.write_text("cluster: c\nnodes:\n  a: {address: local, data_address: 10.0.0.1}\n")
    config = await load_config.load(path)
    assert [one.name for one in config.broken] == ["x"]
    return config


async def _records(path: Path) -> object:
    (values,) = (await load_config.records([path])).values()
    assert isinstance(values, str)
    return values


async def _store(path: Path) -> object:
    folder = path.parent / "known-good/d"
    folder.mkdir(parents=True)
    path.rename(folder / "1.yaml")
    return await Store(folder.parent).reference("d")


async def _store_folder(path: Path) -> object:
    (path.parent / "known-good").mkdir()
    path.rename(path.parent / "known-good/d")
    return await Store(path.parent / "known-good").kept("d")


async def _kept_source(path: Path) -> object:
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), file=str(path))
    return await files.aside(partial(_source, deployment, deployment))


async def _parsers(path: Path) -> object:
    (path.parent / parser_store.FOLDER).mkdir()
    path.rename(path.parent / parser_store.FOLDER / "x.json")
    return parser_store.read(path.parent)


async def _capture(path: Path) -> object:
    folder = path.parent / "captures/20261128T080000Z-g1-failed"
    folder.mkdir(parents=True)
    (folder / "rank0-a.inspect.json").symlink_to(path)
    with suppress(FileNotFoundError, OSError):
        (folder / "rank0-a.log").symlink_to(path)
    return captures.inspects(folder.parent, 1)


async def _compare(path: Path) -> object:
    return read_side(path)


async def _compare_folder(path: Path) -> object:
    (path.parent / "side").mkdir()
    path.rename(path.parent / "side/run.sh")
    return read_side(path.parent / "side")


async def _ssh(key: Path, known_hosts: Path) -> object:
    node = Node(name="spark2", address="127.0.0.1", port=9, key=str(key))
    host = SshHost(node, key.parent / "run", known_hosts)
    why = "not connected yet"
    async with anyio.create_task_group() as group:
        group.start_soon(host.run)
        while why == "not connected yet":
            await anyio.sleep(0.01)
            with pytest.raises(HostError) as raised:
                host.docker_socket()
            why = raised.value.why
        group.cancel_scope.cancel()
    return why


async def _key(path: Path) -> object:
    known = path.with_name("known")
    known.write_text("")
    return await _ssh(path, known)


async def _known_hosts(path: Path) -> object:
    return await _ssh(path.with_name("key"), path)


READERS: tuple[Reader, ...] = (
    *(_secret, _redact, _token, _webhook, _cluster, _deployment, _records, _store, _store_folder, _kept_source),
    *(_parsers, _capture, _compare, _compare_folder, _key, _known_hosts),
)


@asynccontextmanager
async def loop_goes_on() -> AsyncIterator[None]:
    """The loop that the readers run on turns while they read."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.001)
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        yield
        before = turns
        with anyio.fail_after(ENDS_S):
            while turns == before:
                await anyio.sleep(0.001)
        group.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("put", ODD, ids=lambda put: put.__name__)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__.strip("_"))
async def test_a_reader_ends_and_reads_no_more_than_its_bound(
    tmp_path: Path, reader: Reader, put: Callable[[Path], None]
) -> None:
    put(tmp_path / "x")
    with counted_reads() as count:
        async with loop_goes_on():
            with anyio.fail_after(ENDS_S), suppress(SparkdError, Forbidden, NotReadable, FileNotFoundError, OSError):
                await reader(tmp_path / "x")
        assert count() < MOST_READ
    assert not patience._STUCK


@pytest.mark.parametrize(
    ("put", "why"), [(fifo, "a FIFO, not a regular file"), (endless, "a device"), (sparse, "it is larger than")]
)
async def test_what_is_in_the_way_is_said(tmp_path: Path, put: Callable[[Path], None], why: str) -> None:
    put(tmp_path / "x")
    with pytest.raises(ActionFailed, match=why):
        await _secret(tmp_path / "x")
    with pytest.raises(NotReadable, match=why):
        read_side(tmp_path / "x")
    assert why in str(await _key(tmp_path / "x"))
    assert why in str(await _records(tmp_path / "x"))


def test_a_log_that_is_none_any_more_is_said_in_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "20261128T080000Z-g1-failed"
    folder.mkdir()
    (folder / "rank0-a.log").write_text("2026-11-28T07:59:00.000Z stderr the end\n")
    fifo(folder / "rank1-b.log")
    assert [line["text"] for line in captures.lines(tmp_path, 1, 10)] == [
        "the end",
        "this log cannot be read: it is a FIFO, not a regular file",
    ]


# ------------------------------------------------------------------------------------------------------- what hangs


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Everything whose name begins with `dead` hangs until the event is set, as on a mount whose server is gone."""
    alive, opened = threading.Event(), regular.opened

    def opens(path: str) -> int:
        if Path(path).name.startswith("dead"):
            alive.wait(60)
        return opened(path)

    monkeypatch.setattr(regular, "opened", opens)
    monkeypatch.setattr(files, "PATIENCE_S", 0.1)
    monkeypatch.setattr(patience, "_STUCK", [])
    yield alive
    alive.set()


async def test_files_that_hang_take_no_thread_of_anything_else(tmp_path: Path, dead: threading.Event) -> None:
    """Fifty dead files and one that is well: the others are answered with an error, and it is read."""
    (tmp_path / "well").write_text("here")
    late = list[str]()

    async def one(name: str) -> None:
        try:
            await files.aside(partial(files.read, tmp_path / name, patience_s=0.1))
        except TimeoutError as error:
            late.append(f"{error.filename}: {error.strerror}")

    with anyio.fail_after(ENDS_S):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, f"dead{number}")
            assert await anyio.to_thread.run_sync(lambda: "another thread") == "another thread"
    assert sorted(late) == sorted(f"{tmp_path}/dead{number}: it does not answer" for number in range(20))
    assert await files.aside(partial(files.read, tmp_path / "well")) == b"here"
    again = len(patience._STUCK)
    with pytest.raises(TimeoutError):
        await files.aside(partial(files.read, tmp_path / "dead1", patience_s=60.0))
    assert len(patience._STUCK) == again, "what hangs is not asked again until it answers"


async def test_no_more_than_so_many_threads_are_left_behind(
    tmp_path: Path, dead: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "MOST_STUCK", 3)
    for number in range(6):
        with pytest.raises(TimeoutError):
            files.read(tmp_path / f"dead{number}", patience_s=0.05)
    threads = [one.thread for one in patience._STUCK]
    assert len(threads) == 3
    dead.set()
    for thread in threads:
        thread.join(10)
    (tmp_path / "dead7").write_text("back")
    assert files.read(tmp_path / "dead7") == b"back"


# ------------------------------------------------------------------------------------------------------ folders, texts


def test_a_folder_of_one_side_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST_FILES", 5)
    for number in range(6):
        (tmp_path / f"{number}.sh").write_text("vllm serve /m\n")
    with pytest.raises(NotReadable, match="holds more than 5 entries"):
        read_side(tmp_path)


def test_folders_in_the_folder_of_one_side_are_not_entered(tmp_path: Path) -> None:
    with nested(tmp_path / "side", depth=DEEP) as side:
        (side / "run.sh").write_text("#!/bin/sh\nvllm serve /models/x\n")
        assert len(read_side(side).ranks) == 1
        (side / "run.sh").unlink()


async def test_a_folder_of_records_that_somebody_filled_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular.names, "__defaults__", (10,))
    (tmp_path / "d").mkdir()
    for number in range(11):
        (tmp_path / "d" / f"{number}.yaml").touch()
    with pytest.raises(NotRead, match="holds more than 10 entries"):
        await Store(tmp_path).records("d")


def test_a_key_has_the_certificate_that_lies_beside_it(tmp_path: Path) -> None:
    """As asyncssh has it of a key that it reads itself."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(tmp_path / "key")
    assert [one.has_cert for one in asyncssh.load_keypairs([ssh._key(str(tmp_path / "key"))])] == [False]
    certificate = key.generate_user_certificate(key.convert_to_public(), "sparkd", principals=["sparkd"])
    certificate.write_certificate(tmp_path / "key-cert.pub")
    found, own = (asyncssh.load_keypairs(one) for one in ([ssh._key(str(tmp_path / "key"))], str(tmp_path / "key")))
    assert [one.has_cert for one in found] == [one.has_cert for one in own] == [True, False]
    assert [one.public_data for one in found] == [one.public_data for one in own]


def test_a_text_has_the_ends_of_lines_that_it_always_had(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\r\nb\rc\n")
    assert files.text(tmp_path / "x") == (tmp_path / "x").read_text() == "a\nb\nc\n"
