"""A node whose systemd and Docker answer -> a clean and healthy one, without a reboot. Runs on the node, as root."""

import shutil
import subprocess
import sys
import time
from pathlib import Path


def run(*argv: str, check: bool = True) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=90)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def loaded(unit: str) -> bool:
    return run("systemctl", "show", "-P", "LoadState", unit, check=False).strip() == "loaded"


# Faults first: nothing below works across a cut link.
for chain in ("INPUT", "OUTPUT"):
    run("iptables", "-w", "-P", chain, "ACCEPT")
    run("iptables", "-w", "-F", chain)
for line in Path("/etc/sparkd-lab/links").read_text().splitlines():
    name = line.split()[1]
    if Path("/sys/class/net", name).exists():
        run("ip", "link", "set", "dev", name, "up")
run("/usr/lib/sparkd-lab/links")

# The supervisor before its ranks, or it would start them again. Killed: a test may have left it hanging.
for unit in ("sparkd.service", "sparkd-node.service"):
    if loaded(unit):
        run("systemctl", "kill", "--signal=KILL", unit, check=False)
        run("systemctl", "stop", unit)
if loaded("sparkd.service"):
    run("systemctl", "disable", "--quiet", "sparkd.service")  # without a configuration it would fail at every boot
for transient in Path("/run/systemd/transient").glob("*.service"):
    run("systemctl", "kill", "--signal=KILL", transient.name, check=False)
    run("systemctl", "stop", transient.name, check=False)

for legacy in Path("/etc/systemd/system").glob("vllm*.service"):  # what people have beside sparkd
    run("systemctl", "disable", "--quiet", legacy.name, check=False)
    run("systemctl", "kill", "--signal=KILL", legacy.name, check=False)
    run("systemctl", "stop", legacy.name, check=False)
    legacy.unlink()

# What a test configured: drop-ins, another Docker configuration, sparkd's own files.
for pattern in ("sparkd*.service.d", "vllm*.service.d"):
    for dropins in Path("/etc/systemd/system").glob(pattern):
        shutil.rmtree(dropins)
run("systemctl", "daemon-reload")
docker_configuration = Path("/etc/docker/daemon.json")
if docker_configuration.exists():
    docker_configuration.unlink()
    run("systemctl", "restart", "docker.service")
Path("/etc/sparkd/sparkd.yaml").unlink(missing_ok=True)

containers = run("docker", "ps", "--all", "--quiet").split()
if containers:
    run("docker", "rm", "--force", "--volumes", *containers)

for folder in ("/var/lib/sparkd", "/var/lib/sparkd-node", "/run/sparkd", "/etc/sparkd/deployments"):
    if Path(folder).exists():
        run("find", folder, "-mindepth", "1", "-delete")
for pattern in ("psm_*", "sem.mp-*"):
    for left in Path("/dev/shm").glob(pattern):
        left.unlink()

if loaded("sparkd-node.socket"):
    run("systemctl", "restart", "sparkd-node.socket")
run("systemctl", "reset-failed")
deadline = time.monotonic() + 60
while run("systemctl", "is-system-running", check=False).strip() != "running":
    if time.monotonic() > deadline:
        sys.exit("not `running` after a reset: " + run("systemctl", "--failed", "--no-legend", check=False))
    time.sleep(0.2)
