"""What a command needs, through every layer that people put around an engine; and what is left alone."""

from __future__ import annotations

import shlex

import pytest

from sparkd.checks.shared.argv import made, needed, needed_inside

DOCKER = "host program /usr/bin/docker"


def spoken(words: str, workdir: str | None = None) -> list[str]:
    return [
        f"{' '.join(filter(None, (one.place.kind, one.place.name)))} {one.role} {one.path}".strip()
        for one in needed(shlex.split(words), workdir)
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("/opt/a --port 1", ["host program /opt/a"]),
        ("/bin/bash /opt/start.sh x", ["host program /bin/bash", "host script /opt/start.sh"]),
        ("/bin/bash -lc 'bash /opt/start.sh >/tmp/x 2>&1'", ["host program /bin/bash", "host script /opt/start.sh"]),
        (
            "/usr/bin/env A=b /usr/bin/nice -n 5 timeout -k 5 10 /v/bin/python -u /opt/x.py --a",
            ["host program /usr/bin/env", "host program /v/bin/python", "host script /opt/x.py"],
        ),
        ("/v/bin/python -m vllm.entrypoints.openai.api_server", ["host program /v/bin/python"]),
        ("/v/bin/python -X dev -W ignore run.py", ["host program /v/bin/python"]),
        (
            "/usr/bin/docker exec -it -e A=1 -w /srv ds4 bash go.sh",
            [DOCKER, "container ds4 container", "container ds4 program bash", "container ds4 script /srv/go.sh"],
        ),
        (
            "/usr/bin/docker exec ds4 bash -c 'source /venv/bin/activate && exec /opt/go'",
            [
                *(DOCKER, "container ds4 container", "container ds4 program bash"),
                *("container ds4 script /venv/bin/activate", "container ds4 program /opt/go"),
            ],
        ),
        ("/usr/bin/docker start -a ds4", [DOCKER, "container ds4 container"]),
        ("/usr/bin/docker container start ds4", [DOCKER, "container ds4 container"]),
        (
            "/usr/bin/docker run --rm --gpus all -v /srv/m:/m:ro -v named:/n img:1 bash /m/start.sh",
            [DOCKER, "host mount /srv/m", "image img:1 script /m/start.sh"],
        ),
        (
            "/usr/bin/docker run --mount type=bind,src=/srv/m,dst=/m --entrypoint /go img:1 --x",
            [DOCKER, "host mount /srv/m", "image img:1 program /go"],
        ),
        ("/usr/bin/docker compose -f /opt/llm/compose.yml up", [DOCKER, "host file /opt/llm/compose.yml"]),
        ("/bin/bash -c 'cd /opt/llm && ./start.sh'", ["host program /bin/bash", "host file /opt/llm", "host program /opt/llm/start.sh"]),
        ("sh -c 'cd /opt/llm || exit 1; bash run.sh'", ["host file /opt/llm", "host script /opt/llm/run.sh"]),
        ("/usr/bin/systemd-cat -t vllm /opt/a", ["host program /usr/bin/systemd-cat", "host program /opt/a"]),
        ("/usr/bin/timeout --signal KILL 10 /opt/a", ["host program /usr/bin/timeout", "host program /opt/a"]),
        ("/usr/bin/flock --timeout 10 /run/gone.lock /opt/a", ["host program /usr/bin/flock", "host program /opt/a"]),
        ("/bin/su - bob -c '/opt/a'", ["host program /bin/su", "host program /opt/a"]),
        ("/sbin/runuser -u bob -- /opt/a b", ["host program /sbin/runuser", "host program /opt/a"]),
        (
            "docker exec c1 taskset --cpu-list 0-3 nice --adjustment 5 vllm serve x",
            ["container c1 container", "container c1 program taskset", "container c1 program vllm"],
        ),
        ("/bin/sh -c 'docker exec c1 /a/b'", ["host program /bin/sh", "container c1 container", "container c1 program /a/b"]),
    ],
)  # fmt: skip
def test_layers(words: str, expected: list[str]) -> None:
    assert spoken(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        "bash -c '[ -x /opt/a ] && /opt/a'",
        "bash -c 'if test -f /opt/a; then /opt/a; fi'",
        "bash -c '/opt/a || true'",
        "bash -c 'for x in 1; do /opt/a; done'",
        "bash -c 'sync; echo 3 > /proc/sys/vm/drop_caches; rm -f /dev/shm/psm_*'",
        "bash -c 'never closed \"'",
        "bash $SCRIPT",
        "bash -c \"$RUN\"",
        "docker -H tcp://other:2375 exec ds4 /opt/a",
        "bash -c 'podman exec ds4 bash /opt/a'",
        "podman start ds4",
        "bash -c 'command -v /opt/a && /opt/a; sync'",
        "bash -c 'mountpoint -q /mnt/a && /mnt/a/run; sync'",
        "bash -c 'curl -o /run/a.sh http://x && bash /run/a.sh'",
        "bash -c 'python3 -m venv /opt/v && /opt/v/bin/vllm serve x'",
        "bash -c 'echo sync > /run/a.sh; bash /run/a.sh'",
        "bash -c 'pushd here; cd there; ./a'",
        "bash -c '(cd there; ./a); ./b'",
        "docker stop ds4",
        "docker exec $NAME bash /opt/a",
        "docker run vllm/vllm-openai:latest --model x",
        "docker run img serve",
        "vllm serve /models/x",
        "sudo",
        "",
    ],
)  # fmt: skip
def test_what_only_a_running_shell_could_tell_is_not_guessed(words: str) -> None:
    assert spoken(words) == []


def test_relative_paths_start_at_the_working_folder() -> None:
    assert spoken("/bin/sh run.sh", "/srv/app") == ["host program /bin/sh", "host script /srv/app/run.sh"]
    assert spoken("/bin/sh run.sh") == ["host program /bin/sh"]


def test_the_command_of_a_container_is_meant_inside_it() -> None:
    found = list(needed_inside(["bash", "/workspace/x.sh"], "old", "/"))
    assert [(one.place.kind, one.place.name, one.path) for one in found] == [
        ("container", "old", "bash"),
        ("container", "old", "/workspace/x.sh"),
    ]


def test_containers_that_a_command_makes() -> None:
    assert list(made(["docker", "run", "-d", "--name", "a", "img", "x"])) == ["a"]
    assert list(made(["bash", "-c", "docker rm -f b; docker create --name=b img"])) == ["b"]
    assert list(made(["docker", "exec", "a", "x"])) == []
