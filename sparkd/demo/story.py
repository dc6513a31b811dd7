"""The demo's story, told while it happens: a start, an answer, a lost rank, a recovery, and what sparkd says of it."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

from sparkd.ctl.text import duration, say, terminal, wrap
from sparkd.demo.errors import DemoError
from sparkd.demo.faults import FAULTS, WORKER
from sparkd.demo.layout import NODES
from sparkd.demo.scene import Event, Scene, age, kill

NOTICED_S, RECOVERED_S = 10.0, 30.0
QUESTION = "Who answers when one of two machines fails?"


def tell(scene: Scene) -> None:
    """Raises DemoError when something did not come true."""
    began = time.monotonic()
    where = " and ".join(f"{name} ({address})" for name, address in NODES.items())
    say(f"Two nodes on this machine, {where}, a simulated vLLM that spans both, and the real sparkd.")
    say(f"Nothing here needs root, Docker, SSH or a GPU; all of it is in {scene.layout.folder}.")
    _heading("Start the group: the worker, then the head, then a real completion as proof")
    _ctl(scene, "start", "--wait", expected=0)
    _ask(scene)
    _ctl(scene, "status", expected=0)
    _lose_a_rank(scene)
    _ask(scene)
    _heading("What does sparkd say about it?")
    _ctl(scene, "status", expected=0)
    _ctl(scene, "history", expected=0)
    _ctl(scene, "why", expected=0)
    click.echo(f"\nThat took {duration(time.monotonic() - began)}.")


def _lose_a_rank(scene: Scene) -> None:
    """The worker's engine process is killed; the group must be noticed, torn down and serving again."""
    worker, before = scene.process("spark2", WORKER), scene.deployment()["generation"]
    _heading(f"Lose a rank: kill -9 {worker.pid}, which is {worker.title} on spark2")
    after, since = scene.last_event(), time.time()
    kill(worker.pid)

    def serves_again(event: Event) -> bool:
        return bool(event["kind"] == "serving" and event["generation"] > before)

    seen = scene.follow(after, since, RECOVERED_S, serves_again)
    noticed = next((age(event, since) for event in seen if event["kind"] == "failed"), None)
    if noticed is None or noticed > NOTICED_S:
        raise DemoError("the lost rank was not noticed")
    starts = [event["generation"] for event in seen if event["kind"] == "starting"]
    if starts != [before + 1]:
        raise DemoError(f"one group restart was due, these generations were started: {starts}")
    say(f"\nsparkd noticed after {noticed:.1f} s, and it served again after {age(seen[-1], since):.1f} s.")


def _ask(scene: Scene) -> None:
    say(f"\nQuestion: {QUESTION}\nAnswer: {scene.ask(QUESTION)} (simulated: the words mean nothing)")


def _heading(text: str) -> None:
    click.echo()
    for line in wrap(text, terminal().width):
        click.echo(terminal().paint(line, "bold"))


def _ctl(scene: Scene, *words: str, expected: int) -> None:
    """The real command with its real output."""
    click.echo("\n" + terminal().paint(f"$ sparkd ctl {' '.join(words)}", "bold"))
    sys.stdout.flush()
    argv = [sys.executable, "-m", "sparkd", "ctl", *words]
    environment = {**os.environ, "SPARKD_SOCKET": str(scene.layout.socket)}
    # Not in the terminal's group: on ctrl-C it would say that sparkd goes on, while the demo takes everything down.
    done = subprocess.run(argv, env=environment, stderr=subprocess.STDOUT, check=False, process_group=0)
    _somebody_reads()  # first: without a reader ctl ends well, whatever it would have ended with
    if done.returncode != expected:
        raise DemoError(f"sparkd ctl {' '.join(words)} ended with {done.returncode} instead of {expected}")


def _somebody_reads() -> None:
    """ctl ends with success, and early, when its reader has gone; then the reader of the story has gone too."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        raise BrokenPipeError


def called() -> None:
    """How to call `sparkd` by its name, where the shell would not find it: it was started by its path."""
    if shutil.which("sparkd"):
        return
    for program in (sys.argv[0], sys.executable):
        folder = Path(program).absolute().parent
        if shutil.which("sparkd", path=str(folder)):
            click.echo(f"  export PATH={shlex.quote(str(folder))}:$PATH")
            return


def stay(scene: Scene) -> None:
    """What a person may do now."""
    layout = scene.layout
    _heading("It goes on until ctrl-C. Meanwhile, in another terminal:")
    called()
    click.echo(f"  export SPARKD_SOCKET={layout.socket}")
    click.echo("  sparkd ctl status        (or watch, history, why, logs -f, stop, start …)")
    click.echo("  sparkd demo fault NAME   breaks something, and shows what comes of it:")
    say(" | ".join(FAULTS), indent="    ")
    click.echo(f"\n  page         http://{layout.page}/")
    click.echo(f"  metrics      http://{layout.page}/metrics")
    click.echo(f"  sparkd API   http://{layout.page}/api/v1/status")
    click.echo(f"  engine API   {layout.engine_url}/v1/chat/completions")
    click.echo(f"  sparkd's log {layout.log}")
