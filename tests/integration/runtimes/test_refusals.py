"""Texts of Docker that cannot be provoked here, as public reports show them -> code and clause."""

from __future__ import annotations

import pytest

from sparkd.base.errors import DockerMute
from sparkd.runtimes.docker_refusals import Refused, explain, reason

OCI = "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
NVIDIA = (
    OCI + "unable to start container process: error during container init: error running hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: "
    "nvml error: driver not loaded: unknown"
)
CDI = (
    "could not select device driver: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all: unknown"
)
PORT = "driver failed programming external connectivity: Bind for 0.0.0.0:8000 failed: port is already allocated"
FILE = (
    OCI
    + 'error mounting "/srv/weights/x.json" to rootfs at "/m/x.json": mount src=/srv/weights/x.json: not a directory'
)


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        (NVIDIA, "gpu", "the GPU cannot be used: initialization error: nvml error: driver not loaded"),
        (CDI, "gpu", "CDI does not know nvidia.com/gpu=all"),
        (PORT, "port", "a port it publishes is taken"),
        (FILE, "mount-missing", "mount source /srv/weights/x.json cannot be mounted"),
        ("something\n  new", "other", "something new"),
    ],
)
def test_texts(text: str, code: str, why: str) -> None:
    assert explain(text) == (code, why)


def test_an_error_without_a_text_has_no_reason() -> None:
    assert reason(DockerMute("spark1", "starting sparkd-demo-0 did not end in 60 s")) == "other"
    assert reason(Refused("spark1", "No such image: x:1", 404)) == "image-missing"
