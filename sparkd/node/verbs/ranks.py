"""A rank as a transient unit of this node's systemd: start it as its user, stop it, remove it, read what it said.

systemd alone keeps it: it outlives this service, the connection it was asked over, and sparkd. What ended stays known
to systemd until it is removed: a failure as a failed unit, an end with status 0 because of RemainAfterExit.
"""

from __future__ import annotations

import os
import pwd
import re
import threading
import time
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from sparkd.node import arguments, journal, patience, units
from sparkd.node.node import Node
from sparkd.node.probes import paths, users
from sparkd.node.refusal import Code, Refusal

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""NUL, and halves of characters, which have no bytes: a secret with one left its file behind."""
WORD_BYTES = 32 * os.sysconf("SC_PAGE_SIZE") - 1
"""execve(2): the kernel gives no program a longer argument or variable (MAX_ARG_STRLEN)."""
LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
LIMITS = frozenset(
    (
        *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice"),
        *("nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
    )
)
"""setrlimit(2), by the names that Docker's ulimits have."""
FIXED = (
    "Restart=no",  # one group, one fate: systemd must never bring one rank back alone
    "CollectMode=inactive",  # a failed unit stays, and with it the exit code
    "KillMode=mixed",  # SIGTERM to the rank alone, as in a container; SIGKILL to all that is left of it
    "OOMPolicy=kill",  # one process killed for lack of memory takes the rank along, with the result `oom-kill`
    "LogRateLimitIntervalSec=30s",
    "LogRateLimitBurst=10000",  # the journal itself is bounded by journald.conf; one rank must not fill it alone
)
POLL_S = 0.05
LOOK_S = 5.0


class Rank(NamedTuple):
    unit: str
    argv: List[str]
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    labels: Mapping[str, str]
    user: str
    workdir: str
    grace_s: float
    memory_bytes: Optional[int]
    limits: Mapping[str, int]


def start_rank(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, str]:
    """{id}. When refused, nothing of it is left. Codes besides the usual ones are those of ENDINGS and `_check`."""
    rank = _rank(args)
    if rank.labels.get("SPARKD_OWNER") != owner:
        raise Refusal("refused", "a rank carries the id of the sparkd that asks for it")
    _check(rank)
    secrets = _write_secrets(rank)
    try:
        finished = units.systemctl(command(rank, secrets), deadline_s)
    finally:
        # systemd read it before it executed the rank, and nothing reads it again.
        if secrets:
            os.unlink(secrets)
    if finished.status:
        raise _refusal(rank, finished.errors)
    found = units.look(rank.unit, LOOK_S)
    if found is None:
        raise Refusal("failed", f"{rank.unit} was gone as soon as it was started")
    return {"id": found.id}


def stop_rank(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> str:
    """`stopped` or `gone`; SIGTERM, and SIGKILL to what is left of it after the grace that it was started with."""
    unit, invocation = units.name_of(args), units.id_of(args)
    found = units.look(unit, LOOK_S)
    if found is None or found.id != invocation or not found.runs:
        return "gone"
    finished = units.systemctl(["systemctl", "stop", "--", unit], deadline_s)
    if finished.status:
        raise Refusal("failed", f"systemctl stop {unit}: {finished.errors.strip()}")
    return "stopped"


def remove_rank(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> str:
    """`removed` or `gone`, when the name is free. What a rank that ended left in its control group ends with it."""
    unit, invocation = units.name_of(args), units.id_of(args)
    ends = time.monotonic() + deadline_s
    found = units.look(unit, LOOK_S)
    if found is None or found.id != invocation:
        return "gone"
    if found.runs:
        raise Refusal("refused", f"{unit} runs: stop it before it is removed")
    units.systemctl(["systemctl", "stop", "--", unit], deadline_s)
    units.systemctl(["systemctl", "reset-failed", "--", unit], LOOK_S)  # fails where stopping was enough
    while units.look(unit, LOOK_S) is not None:
        if time.monotonic() > ends:
            raise Refusal("timeout", f"systemd still knows {unit} after {deadline_s:g} s")
        time.sleep(POLL_S)
    return "removed"


def inspect_rank(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, str]:
    """Every property that systemd has of it. Values of secrets are not among them."""
    finished = units.systemctl(["systemctl", "show", "--", units.name_of(args)], deadline_s)
    return dict(line.partition("=")[::2] for line in finished.output.splitlines())


def rank_log(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    """{lines: [[at, stream, text]], cursor}: the last `tail` lines, or the `first` ones, or with `after` those that
    follow that cursor."""
    invocation = units.id_of(args)
    after = arguments.text(args, "after", default="")
    if after:
        if not journal.CURSOR.fullmatch(after):
            raise Refusal("usage", "after must be a cursor of an earlier answer")
        found = journal.following(invocation, after, deadline_s)
    elif "first" in args:
        found = journal.first(invocation, arguments.integer(args, "first", 1, journal.MAX_LINES), deadline_s)
    else:
        since = args.get("since")
        from_s = None if since is None else arguments.number(args, "since", 0, 1e11)
        found = journal.last(invocation, arguments.integer(args, "tail", 1, 1 << 31), from_s, deadline_s)
    lines = [[line.at, line.stream, line.text] for line in found]
    return {"lines": lines, "cursor": found[-1].cursor if found else after}


# ---------------------------------------------------------------------------------------------------------- a request


def _rank(args: Mapping[str, Any]) -> Rank:
    argv = arguments.items(args, "argv", re.compile(r"[^\0\ud800-\udfff]*", re.DOTALL))
    if not argv or not argv[0].startswith("/"):
        raise Refusal("usage", "argv must begin with the absolute path of a program")
    memory = args.get("memory_bytes")
    workdir = arguments.text(args, "workdir", default="/")
    if not workdir.startswith("/"):
        raise Refusal("usage", "workdir must be absolute")
    return Rank(
        unit=units.name_of(args),
        argv=list(argv),
        env=variables(args, "env"),
        secrets=variables(args, "secrets"),
        labels=_labels(args),
        user=arguments.text(args, "user"),
        workdir=workdir,
        grace_s=arguments.number(args, "grace_s", 0, 86400),
        memory_bytes=None if memory is None else arguments.integer(args, "memory_bytes", 1, 1 << 62),
        limits=_limits(args),
    )


def variables(args: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """A field that maps names of variables to what a program can be given. Raises Refusal(usage)."""
    found = arguments.mapping(args, name)
    for variable, value in found.items():
        if not VARIABLE.fullmatch(variable) or not isinstance(value, str) or UNWRITABLE.search(value):
            raise Refusal("usage", f"{name} must map names of variables to texts ({variable[:80]!r} does not)")
    return found


def _labels(args: Mapping[str, Any]) -> Mapping[str, str]:
    found = variables(args, "labels")
    if not all(LABEL.fullmatch(value) for value in found.values()):
        raise Refusal("usage", "labels must be plain words")
    return found


def _limits(args: Mapping[str, Any]) -> Mapping[str, int]:
    found = arguments.mapping(args, "limits")
    for name, limit in found.items():
        if name not in LIMITS or type(limit) is not int or limit < -1:
            raise Refusal("usage", f"limits must map {', '.join(sorted(LIMITS))} to numbers, -1 for none")
    return found


# ------------------------------------------------------------------------------------------------------------- checks


def _check(rank: Rank) -> None:
    """What systemd would refuse too, but only after it began, and in words that name neither the path nor the user."""
    check_user(rank.user)
    program = rank.argv[0]
    kinds = patience.looked((program, rank.workdir), paths.kind)
    for path, found in kinds.items():
        if found is None:  # else it would be started whenever that comes back, long after the answer was given up
            raise Refusal("failed", f"{path} does not answer: is a mount on the way dead?")
    kind = kinds[program]
    if kind == "no-interpreter":
        raise Refusal("path-missing", f"{paths.interpreter(program)}, which runs {program}, does not exist")
    for path, found in kinds.items():
        if found == "missing":
            raise Refusal("path-missing", f"{path} does not exist")
    if kind == "dir":
        raise Refusal("not-executable", f"{program} is a folder, not a program")
    given = {**rank.env, **rank.secrets}
    words = [*command(rank, None), *(f"--setenv={name}={value}" for name, value in given.items())]
    if any(len(os.fsencode(word)) > WORD_BYTES for word in words):
        raise Refusal(
            "usage", f"an argument or a variable has more than the {WORD_BYTES} bytes that a program can be given"
        )


def check_user(name: str) -> None:
    """Raises Refusal for what is no user of this node, and for one who is root and does not say so."""
    if not users.NAME.fullmatch(name):
        raise Refusal("usage", f"user must be the name of a user, not {name[:80]!r}")
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise Refusal("user-missing", f"user {name} does not exist") from None
    if uid == 0 and name != "root":
        raise Refusal("refused", f"user {name} is root by another name")


ENDINGS: Mapping[str, Tuple[Code, str]] = {
    "200": ("path-missing", "user {0.user} cannot enter its working folder {0.workdir}"),
    "203": (
        "not-executable",
        "user {0.user} cannot execute {0.argv[0]}: its rights, its kind, or limits that are too low",
    ),
    "205": ("limits", "its limits cannot be set: this node allows less"),
    "217": ("user-missing", "user {0.user} does not exist"),
}
"""systemd's exit statuses of what it could not set up (systemd.exec(5)) -> code and words."""


def _refusal(rank: Rank, errors: str) -> Refusal:
    if "already loaded" in errors or "already exists" in errors:
        return Refusal("name-taken", f"the name {rank.unit} is taken by another unit")
    found = units.look(rank.unit, LOOK_S)
    status = found.exit_status if found is not None and found.active == "failed" else ""
    if found is not None and found.active == "failed":
        units.systemctl(["systemctl", "reset-failed", "--", rank.unit], LOOK_S)
    if status in ENDINGS:
        code, words = ENDINGS[status]
        return Refusal(code, words.format(rank))
    why = " ".join(errors.split())[:300] or "it ended before its program was executed, for lack of memory as a rule"
    return Refusal("failed", f"systemd did not start it: {why}")


# -------------------------------------------------------------------------------------------------------- systemd-run


def command(rank: Rank, secrets: Optional[str]) -> List[str]:
    """systemd-run's argument vector. systemd replaces `$` in arguments, and `$$` by one; nothing else of them, and nothing in
    the path of the program."""
    properties = [*FIXED, f"TimeoutStopSec={rank.grace_s:g}s"]
    properties += [f"LogExtraFields={name}={value}" for name, value in rank.labels.items()]
    properties += [f"Limit{name.upper()}={'infinity' if n < 0 else n}" for name, n in rank.limits.items()]
    if rank.memory_bytes is not None:
        properties.append(f"MemoryMax={rank.memory_bytes}")
    if rank.memory_bytes is not None and os.path.isdir(units.MEMORY_V1):
        # There systemd says `signal` of an OOM kill. The kernel's count goes with the control group, so it is printed.
        count = f"{units.MEMORY_V1}/system.slice/{rank.unit}/memory.oom_control"
        properties.append(f"ExecStopPost=-+/usr/bin/cat {count}")
    if secrets:
        properties.append(f"EnvironmentFile={secrets}")
    return [
        *("systemd-run", "--quiet", "--no-ask-password", "--service-type=exec", "--remain-after-exit"),
        *(f"--unit={rank.unit}", f"--description=sparkd rank {rank.unit[: -len('.service')]}"),
        *(f"--uid={rank.user}", f"--working-directory={rank.workdir}"),
        *(f"--property={one}" for one in properties),
        *(f"--setenv={name}={value}" for name, value in rank.env.items()),
        *("--", rank.argv[0], *(word.replace("$", "$$") for word in rank.argv[1:])),
    ]


def _write_secrets(rank: Rank) -> Optional[str]:
    """A file for root alone, on a tmpfs, that systemd reads for the rank: neither `systemctl show` nor /proc shows it."""
    if not rank.secrets:
        return None
    folder = os.environ.get("RUNTIME_DIRECTORY")
    if not folder:
        raise Refusal("failed", "this node service has no RuntimeDirectory to hand secrets over in")
    lines = "".join(f"{name}={quoted(value)}\n" for name, value in rank.secrets.items()).encode("utf-8")
    # A name of its own: of two starts of one rank at once, the refused one would take the file from under the other.
    path = os.path.join(folder, f"{rank.unit}.{threading.get_ident()}.env")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(lines)
    return path


def quoted(value: str) -> str:
    """As EnvironmentFile= reads it back: in double quotes only these four have a meaning (systemd.exec(5))."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'
