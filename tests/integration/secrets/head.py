"""`python -m tests.integration.secrets.head FOLDER`: sparkd on the two nodes of a demo whose engine knows secrets, and says so."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from sparkd.demo import head, layout
from sparkd.model.config import Deployment

SECRETS = ("HF_TOKEN", "VLLM_API_KEY", "ODD_ONE")
ENGINE = """\
import json, os, sys, time
sys.path.insert(0, {root!r})
from http.server import BaseHTTPRequestHandler, HTTPServer
from tests.integration.secrets.spoken import lines
said = [line for name in {names!r} for line in lines(name, os.environ[name])]
for line in said:
    print(line, flush=True)
if os.environ["SPARKD_GENERATION"] != "1":
    os.execv(sys.executable, [sys.executable, "-S", {engine!r}, *sys.argv[1:]])
if os.environ["SPARKD_RANK"] != "0":
    time.sleep(1000)

class Broken(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, "no")
    def do_POST(self):
        self.answer(500, json.dumps({{"error": {{"message": "cannot log in: " + " ".join(said), "code": 500}}}}))
        self.server.asked = True
    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Broken)
server.asked = False
while not server.asked:
    server.handle_request()
time.sleep(3)
raise RuntimeError("cannot log in with " + repr(dict(os.environ)))
"""
"""Its first generation fails at the first request, with the secrets in the body of its error and in its traceback."""


def deployment(places: layout.Layout) -> Deployment:
    script = places.folder / "bin" / "vllm"
    script.parent.mkdir(exist_ok=True)
    root = str(Path(__file__).parents[3])
    script.write_text(ENGINE.format(root=root, names=SECRETS, engine=str(layout.ENGINE)), "utf-8")
    before = layout.deployment(places)
    return replace(
        before,
        command=(sys.executable, "-S", str(script), "serve"),
        secrets={name: str(places.folder / "secrets" / name) for name in SECRETS},
    )


if __name__ == "__main__":
    sys.exit(head.main(sys.argv[1], deployment))
