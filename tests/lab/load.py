"""Requests that go on while something is broken, each counted as good or bad."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import dataclass, field

from . import outer
from .commands import wait_for
from .driver import Daemon

# On the head: one process for all requests, for `docker exec` costs more than an answer. It ends with its standard input,
# after the request that it is at; a line for each says what came of it.
PAUSE_S = 0.1
REQUESTS = """
import json, select, sys, time, urllib.request
body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": int(sys.argv[1])}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
pause_s = 0.0
while not select.select([sys.stdin], [], [], pause_s)[0]:
    pause_s = float(sys.argv[2])
    request = urllib.request.Request("http://127.0.0.1:8000/v1/chat/completions", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    try:
        with opener.open(request, timeout=30) as answer:
            said = "" if json.load(answer)["choices"] else "no choices"
    except (OSError, ValueError, KeyError) as error:
        said, pause_s = repr(error), 0.2
    print(json.dumps(said), flush=True)
"""


@dataclass(slots=True)
class Load:
    """One request after another, from the head, in the block of a `with`."""

    daemon: Daemon
    max_tokens: int = 40
    good: int = 0
    bad: list[str] = field(default_factory=list)
    _asking: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Load:
        program = ["python3", "-c", REQUESTS, str(self.max_tokens), str(PAUSE_S)]
        argv = [*outer.client(), "exec", "--interactive", self.daemon.head.name, *program]
        self._asking = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._count, args=(self._asking,))
        self._thread.start()
        wait_for("the load to begin", lambda: bool(self.good or self.bad), 60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._asking is not None
        assert self._thread is not None
        assert self._asking.stdin is not None
        self._asking.stdin.close()
        self._thread.join(60)
        self._asking.kill()
        self._thread.join()
        self._asking.wait()

    def _count(self, asking: subprocess.Popen[str]) -> None:
        assert asking.stdout is not None
        with asking.stdout as lines:
            for line in lines:
                said = json.loads(line)
                self.good += not said
                self.bad += [said] if said else []
