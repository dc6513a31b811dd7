"""Argument vectors -> finished processes: every one with a deadline, and an error that shows what it said."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

_STARTED = time.monotonic()


class LabError(Exception):
    """Something the lab itself needed did not work; no verdict about sparkd."""


def say(text: str) -> None:
    """One progress line on the real stderr (pytest captures the other), with the seconds since the program began."""
    print(f"[lab {time.monotonic() - _STARTED:6.1f}s] {text}", file=sys.__stderr__, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announces a slow step and how long it took."""
    say(f"{text} ...")
    began = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - began:.1f} s")


def run(
    argv: Sequence[str],
    *,
    check: bool = True,
    input: str | None = None,
    timeout_s: float = 60.0,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `argv` to its end.

    With `log`, everything it prints is appended there, and a failure names the file instead of repeating it.
    Raises LabError when it cannot start, misses its deadline, or (with `check`) exits other than 0.
    """
    run_it = partial(
        subprocess.run, argv, check=False, text=True, errors="replace", timeout=timeout_s, env=env,
        **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
    )  # fmt: skip
    try:
        if log is None:
            done = run_it(capture_output=True)
        else:
            with log.open("a") as out:
                out.write(f"$ {' '.join(argv)}\n")
                out.flush()
                done = run_it(stdout=out, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise LabError(f"{_short(argv)} did not end within {timeout_s:g} s{_see(log)}") from None
    except OSError as error:
        raise LabError(f"{_short(argv)} could not be started: {error}") from error
    if check and done.returncode != 0:
        said = "" if log else f": {(done.stderr or done.stdout).strip()[-2000:]}"
        raise LabError(f"{_short(argv)} exited {done.returncode}{said}{_see(log)}")
    return done


def pipe(producer: Sequence[str], consumer: Sequence[str], timeout_s: float) -> str:
    """Runs `producer | consumer` without a shell. Returns what the consumer printed."""
    with subprocess.Popen(producer, stdout=subprocess.PIPE) as source:
        try:
            done = subprocess.run(
                consumer, check=False, stdin=source.stdout, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            source.kill()
            raise LabError(f"{_short(consumer)} did not end within {timeout_s:g} s") from None
        if source.stdout is not None:
            source.stdout.close()
        if done.returncode != 0 or source.wait(timeout=timeout_s) != 0:
            raise LabError(f"{_short(producer)} | {_short(consumer)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout.strip()


def wait_for(what: str, condition: Callable[[], bool], deadline_s: float, every_s: float = 0.1) -> None:
    """Waits until `condition()` holds. Raises LabError naming `what` after `deadline_s` seconds."""
    ends = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > ends:
            raise LabError(f"{what}: not within {deadline_s:g} s")
        time.sleep(every_s)


def _short(argv: Sequence[str]) -> str:
    text = " ".join(argv)
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-70:]}"


def _see(log: Path | None) -> str:
    return f" (see {log})" if log else ""
