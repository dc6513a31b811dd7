"""YAML files -> Config and records, read by a child process that takes pydantic and the YAML library along when it ends.

In the daemon they would cost a third of its memory for good (docs/benchmarks.md), for something that is done a few
times a year. The child runs the same Python and sees the same environment; what it says is bounded in time and size.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from sparkd import __version__
from sparkd.base.errors import ConfigError, Problem, SparkdError
from sparkd.base.json_codec import Undecodable, decode
from sparkd.model.config import Config

DEADLINE_S = 60.0
"""Half a second on an idle machine. These are often out of memory by design, and their disks busy with weights."""
ANSWER_BYTES = 16 * 1024 * 1024
LAST_WORDS_BYTES = 64 * 1024


class NotLoaded(SparkdError):
    """The child came to no answer; the text says why, in one line."""


async def load(path: Path) -> Config:
    """Raises ConfigError as `sparkd.settings.load` does, and NotLoaded when that could not even be found out."""
    return _config(await _answer("sparkd.settings.child", [str(path)], "the configuration"))


async def records(paths: Sequence[Path]) -> dict[str, Any]:
    """Path -> values of each of these YAML files, for one that cannot be read a text that says why. Raises NotLoaded."""
    if not paths:
        return {}
    said = await _answer("sparkd.importers.child", [str(path) for path in paths], "the known-good files")
    try:
        return dict(json.loads(said)["records"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotLoaded(f"the process that reads the known-good files gave no answer: {error!r}") from error


async def _answer(module: str, args: Sequence[str], what: str) -> bytearray:
    # -P: a file called pydantic.py in the folder that sparkd was started from must not become part of it.
    argv = [sys.executable, "-P", "-m", module, *args]
    try:
        process = await anyio.open_process(argv, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NotLoaded(f"the process that reads {what} could not be started: {error}") from error
    said, last_words = bytearray(), bytearray()
    try:
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(_hear, process.stdout, said, ANSWER_BYTES, group.cancel_scope)
                group.start_soon(_hear, process.stderr, last_words, LAST_WORDS_BYTES, group.cancel_scope)
            if len(said) > ANSWER_BYTES or len(last_words) > LAST_WORDS_BYTES:
                raise NotLoaded(f"the process that reads {what} says more than {ANSWER_BYTES >> 20} MiB")
            code = await process.wait()
    except TimeoutError:
        raise NotLoaded(f"{what} could not be read within {DEADLINE_S:g} s") from None
    finally:
        await _end(process)
    if code:
        raise NotLoaded(f"the process that reads {what} {_how(code)}{_reason(last_words)}")
    return said


async def _hear(stream: ByteReceiveStream | None, heard: bytearray, most: int, both: anyio.CancelScope) -> None:
    """One of its streams to the end; a child that says more than it may is heard no further."""
    assert stream is not None  # open_process makes pipes
    async for chunk in stream:
        heard += chunk
        if len(heard) > most:
            both.cancel()


async def _end(process: Process) -> None:
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.kill()
        await process.aclose()


def signature(path: Path) -> frozenset[tuple[str, int, int, int]]:
    """Of all files of the configuration: what changes when one of them is written, replaced, added or removed. Blocks."""
    main = path / "sparkd.yaml" if os.path.isdir(path) else path
    found = set()
    for file in (main, *_listed(main.parent / "deployments")):
        try:
            about = file.stat()
        except OSError:
            continue  # gone, or not for us to see: as if it were not there
        found.add((str(file), about.st_ino, about.st_size, about.st_mtime_ns))
    return frozenset(found)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("*.y*ml"))
    except OSError:
        return []  # as above; its coming and going must not end what looks after every cycle


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    named = {one.value: one.name for one in signal.Signals}  # real-time signals have no names
    name = named.get(-code, f"signal {-code}")
    return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _reason(last_words: bytearray) -> str:
    lines = last_words.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""


def _config(said: bytearray) -> Config:
    try:
        answer: dict[str, Any] = json.loads(said)
        version = answer["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise NotLoaded(f"the process that reads the configuration gave no answer: {error!r}") from error
    if version != __version__:
        raise NotLoaded(f"sparkd {version} is installed and {__version__} runs: restart sparkd, engines go on")
    if "problems" in answer:
        raise ConfigError(tuple(Problem(**problem) for problem in answer["problems"]))
    try:
        return decode(Config, answer["config"])
    except (Undecodable, KeyError) as error:
        raise NotLoaded(f"the configuration that was read makes no sense: {error!r}") from error
