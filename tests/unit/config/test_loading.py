"""The child that reads the configuration for the daemon: the same values and problems, and one line when it dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from config_cases import CLUSTER, DEPLOYMENT, write

from sparkd import __version__, settings
from sparkd.base.errors import ConfigError
from sparkd.fleet import load_config

FULL = DEPLOYMENT.replace(
    "args: {tensor-parallel-size: 2}",
    "args: {tensor-parallel-size: 2, a: 0.90, b: [1, 0.50], c: {d: [1.5, null]}, e: on}",
) + (
    "container: {mounts: [{source: /m, target: /n}], ulimits: {memlock: -1}, gpus: null, entrypoint: []}\n"
    "secrets: {HF_TOKEN: {file: /etc/sparkd/hf}}\nmarkers: [{path: /m/c.json, key: k, equals: 1}]\n"
    "profiles: {fast: {args: {a: 0.80}, stop: {grace: 45}}}\nprofile: fast\npolicy: {backoff: {first: 3}}\nafter: []\n"
)


async def test_it_gives_what_reading_it_here_gives(tmp_path: Path) -> None:
    write(tmp_path, CLUSTER + "reload: {watch: true}\nnotify: {webhook: {url: https://a/b}}\n", d=FULL, e="name: e\n")
    loaded = await load_config.load(tmp_path)
    assert loaded == settings.load(tmp_path)
    assert (loaded.cluster.reload.watch, [one.name for one in loaded.broken]) == (True, ["e"])


async def test_a_bad_sparkd_yaml_has_the_same_problems(tmp_path: Path) -> None:
    write(tmp_path, CLUSTER + "polcy: {}\n", d=DEPLOYMENT + "prot: 1\n")
    with pytest.raises(ConfigError) as there:
        await load_config.load(tmp_path / "sparkd.yaml")
    assert there.value.problems == settings.check(tmp_path)
    assert len(there.value.problems) == 2


def test_the_daemon_never_has_pydantic_or_the_yaml_library_in_memory() -> None:
    code = "import sparkd.daemon.run, sys; print([name for name in sys.modules if name.startswith(('pydantic', 'ruamel'))])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


# Each stands in for the Python of the child, as a real process.
ENDINGS = {
    "kill -KILL $$": "was ended by SIGKILL (out of memory?)",
    "echo first >&2; echo 'MemoryError' >&2; exit 1": "ended with status 1: MemoryError",
    "exit 3": "ended with status 3",
    "kill -40 $$": "was ended by signal 40",
    "echo hello": "gave no answer",
    "echo '{}'": "gave no answer",
    f"""echo '{json.dumps({"version": __version__, "config": {}})}'""": "makes no sense",
    """echo '{"version": "0.0.7"}'""": "sparkd 0.0.7 is installed",
    "exec sleep 60": "not be read within 0.5 s",
    "exec yes": "says more than 1 MiB",
    "exec yes >&2": "says more than 1 MiB",
}


@pytest.mark.parametrize(("script", "said"), ENDINGS.items())
async def test_a_child_that_dies_says_so_in_one_line(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(load_config, "ANSWER_BYTES", 1 << 20)
    monkeypatch.setattr(load_config, "DEADLINE_S", 0.5 if "sleep" in script else 20.0)
    with anyio.fail_after(30), pytest.raises(load_config.NotLoaded) as caught:
        await load_config.load(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_no_child_is_one_line_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(load_config.NotLoaded, match="could not be started"):
        await load_config.load(tmp_path)


def test_the_signature_changes_with_every_way_to_change_a_file(tmp_path: Path) -> None:
    write(tmp_path, CLUSTER, d=DEPLOYMENT)
    seen = [load_config.signature(tmp_path)]
    assert load_config.signature(tmp_path / "sparkd.yaml") == seen[0]
    (tmp_path / "deployments" / "d.yaml").write_text(DEPLOYMENT + "port: 9000\n")
    seen.append(load_config.signature(tmp_path))
    (tmp_path / "deployments" / "e.yml").write_text("name: e\n")
    seen.append(load_config.signature(tmp_path))
    (tmp_path / "deployments" / "d.yaml").unlink()
    seen.append(load_config.signature(tmp_path))
    (tmp_path / "deployments" / "e.yml").rename(tmp_path / "deployments" / "f.yml")
    seen.append(load_config.signature(tmp_path))
    assert len(set(seen)) == len(seen)
    (tmp_path / "deployments" / "notes.txt").write_text("not ours")
    assert load_config.signature(tmp_path) == seen[-1]
