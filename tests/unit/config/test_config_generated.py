"""Broken configuration in numbers: every key with every wrong type, every section with a key too many; files that are
no files, bytes that are no text, variables that are no values. Always exit 2, the right line, and what to write instead."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner
from config_cases import CLUSTER, DEPLOYMENT, cases, write

from sparkd.cli.main import cli
from sparkd.model.config import Cluster, Deployment
from sparkd.settings.reader import MAX_BYTES
from sparkd.settings.shape import INTERNAL


def refused(where: Path) -> list[str]:
    """What `sparkd config check` says on stderr, one problem a line; it must exit 2, without a traceback."""
    done = CliRunner().invoke(cli, ["config", "check", str(where)])
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (2, "")
    *found, count = done.stderr.splitlines()
    assert count == f"{len(found)} problem{'s' * (len(found) != 1)} in the configuration"
    return found


# --------------------------------------------------------------------------------------------- every key, every section


class Key(NamedTuple):
    """One key of the schema: the keys on the way to it, and its type."""

    path: tuple[str, ...]
    hint: Any


def keys(kind: type, path: tuple[str, ...] = ()) -> Iterator[Key]:
    """Every key of a schema; of a list or a mapping of sections those of one section are enough, and covered by cases."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name in INTERNAL or (field.name == "name" and path):
            continue
        hint = hints[field.name]
        yield Key((*path, field.name), hint)
        if isinstance(hint, type) and is_dataclass(hint):
            yield from keys(hint, (*path, field.name))


WRONG: dict[str, tuple[str, ...]] = {
    "text": ("5", "[x]", "{x: y}", "true", "1.5"),
    "number": ("[1]", "{x: 1}", "many", "true", ".inf", "0x10"),
    "flag": ("on", "1", "[true]", "'true'"),
    "list": ("x", "5", "{x: y}", "true"),
    "section": ("x", "5", "[x]", "false"),
}


def wrong(hint: Any) -> tuple[str, ...]:
    arms = [arm for arm in get_args(hint) if arm is not type(None)]
    if type(None) in get_args(hint):
        return wrong(arms[0])
    if hint is bool:
        return WRONG["flag"]
    if hint in (int, float):
        return WRONG["number"]
    if hint is str:
        return WRONG["text"]
    if get_origin(hint) is tuple:
        return WRONG["list"]
    assert get_origin(hint) is Mapping or is_dataclass(hint), hint
    return WRONG["section"]


def nested(path: tuple[str, ...], value: str) -> tuple[str, int]:
    """`value` under these keys, one key a line, and how many lines that makes."""
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
    return "\n".join(lines) + f" {value}\n", len(lines)


def without(text: str, key: str) -> str:
    """A file without one of its own keys, which it must not have twice."""
    kept: list[str] = []
    skipping = False
    for line in text.splitlines(keepends=True):
        skipping = line.startswith(f"{key}:") or (skipping and line.startswith(" "))
        if not skipping:
            kept.append(line)
    return "".join(kept)


class Broken(NamedTuple):
    file: str
    text: str
    line: int
    path: str


def broken() -> Iterator[Any]:
    for kind, good, file in ((Cluster, CLUSTER, "sparkd.yaml"), (Deployment, DEPLOYMENT, "deployments/d.yaml")):
        for path, hint in keys(kind):
            base = without(good, path[0])
            before = base.count("\n")
            dotted = ".".join(path)
            for value in wrong(hint):
                text, depth = nested(path, value)
                yield pytest.param(Broken(file, base + text, before + depth, dotted), id=f"{dotted}: {value}")
            if is_dataclass(hint) or len(path) == 1:
                where = path if is_dataclass(hint) else ()
                text, depth = nested((*where, f"{path[-1]}x"), "1")
                unknown = ".".join((*where, f"{path[-1]}x"))
                yield pytest.param(Broken(file, base + text, before + depth, unknown), id=f"unknown {unknown}")


@pytest.mark.slow
@pytest.mark.parametrize("case", tuple(broken()))
def test_every_wrong_value_and_unknown_key_is_said_where_it_is(tmp_path: Path, case: Broken) -> None:
    write(tmp_path, d=DEPLOYMENT)
    file = tmp_path / case.file
    file.write_text(case.text)
    place = f"{file}:{case.line}: {case.path}"
    about = [said for said in refused(tmp_path) if said.startswith((f"{place}: ", f"{place}[", f"{place}."))]
    assert about, refused(tmp_path)
    assert all(said.endswith(")") for said in about), f"no fix in {about}"


@pytest.mark.parametrize("case", cases("broken_deployments.txt"), ids=lambda case: case.name)
def test_every_broken_deployment_ends_the_command_with_2(tmp_path: Path, case: Any) -> None:
    write(tmp_path, d=case.text)
    assert refused(tmp_path) == [f"{tmp_path}/deployments/d.yaml{problem}" for problem in case.problems]


@pytest.mark.parametrize("case", cases("broken_clusters.txt"), ids=lambda case: case.name)
def test_every_broken_sparkd_yaml_ends_the_command_with_2(tmp_path: Path, case: Any) -> None:
    write(tmp_path, case.text)
    assert refused(tmp_path) == [f"{tmp_path}/sparkd.yaml{problem}" for problem in case.problems]


# ---------------------------------------------------------------------------------------------------- bytes, not text

GOOD = DEPLOYMENT.encode()
INVISIBLE = "is not allowed (remove it)"
NO_TEXT = ": the file is UTF-16, UTF-32 or no text at all (save it as UTF-8)"
NO_KEYS = "(see docs/interfaces.md)"

BYTES: dict[str, tuple[bytes, str]] = {
    "utf-16 with a mark": (DEPLOYMENT.encode("utf-16"), ": the file is UTF-16 (save it as UTF-8)"),
    "utf-16 without": (DEPLOYMENT.encode("utf-16-le"), NO_TEXT),
    "utf-16, big end first": (DEPLOYMENT.encode("utf-16-be"), NO_TEXT),
    "utf-32, big end first": (DEPLOYMENT.encode("utf-32-be"), NO_TEXT),
    "latin-1": (GOOD + "user: é\n".encode("latin-1"), ":7: byte 0xe9 is not UTF-8 (save the file as UTF-8)"),
    "windows quotes": (GOOD + b"user: \x93x\x94\n", ":7: byte 0x93 is not UTF-8 (save the file as UTF-8)"),
    "cut in a character": (GOOD + "user: é".encode()[:-1], ":7: byte 0xc3 is not UTF-8 (save the file as UTF-8)"),
    "overlong": (GOOD + b"user: \xc0\xaf\n", ":7: byte 0xc0 is not UTF-8 (save the file as UTF-8)"),
    "half a character": (GOOD + b"user: \xed\xa0\x80\n", ":7: byte 0xed is not UTF-8 (save the file as UTF-8)"),
    "NUL": (GOOD + b"user: a\0b\n", f":7: the invisible character 0x00 {INVISIBLE}"),
    "nothing but NUL": (bytes(4096), NO_TEXT),
    "escape": (GOOD + b"user: \x1b[31m\n", f":7: the invisible character 0x1b {INVISIBLE}"),
    "delete": (GOOD + b"user: \x7f\n", f":7: the invisible character 0x7f {INVISIBLE}"),
    "two byte order marks": (b"\xef\xbb\xbf" * 2 + GOOD, f":1: the invisible character 0xfeff {INVISIBLE}"),
    "line separator": (GOOD + "user: a\u2028b\n".encode(), f":7: the invisible character 0x2028 {INVISIBLE}"),
    "program": (b"\x7fELF\x02\x01\x01" + bytes(50), f":1: the invisible character 0x7f {INVISIBLE}"),
    "archive": (b"\x1f\x8b\x08\x00abc", NO_TEXT),
    "empty": (b"", ": the file is empty (write `key: value` lines, or remove the file)"),
    "blank": (b"  \n\n   \n", ": the file is empty (write `key: value` lines, or remove the file)"),
    "a tab alone": (b"\t\n", ":1: a tab where YAML wants spaces (indent with spaces)"),
    "too large": (b"# \n" * MAX_BYTES, ": the file is larger than 1024 KiB (is it a configuration file?)"),
    "one huge value": (
        b"name: " + b"x" * MAX_BYTES,
        ": the file is larger than 1024 KiB (is it a configuration file?)",
    ),
    "many values": (
        GOOD + b"after: [" + b"x," * 30_000 + b"]\n",
        ":7: more than 20000 values in one file (is it a configuration file?)",
    ),
    "brackets without end": (b"[" * 50_000, ":1: [0][0][0][0]: nested more than 32 deep (no setting is)"),
    "braces without end": (b"{a: " * 50_000, ":1: a.a.a.a: nested more than 32 deep (no setting is)"),
    "dashes without end": (b"- " * 50_000 + b"x\n", ":1: [0][0][0][0]: nested more than 32 deep (no setting is)"),
    "keys of keys without end": (b"? " * 50_000 + b"x\n", ":1: ?.?.?.?: nested more than 32 deep (no setting is)"),
    "a key without end": (b"k" * 5000 + b": 1\n", ":1: "),
    "windows line ends": ((DEPLOYMENT + "prt: 1\n").replace("\n", "\r\n").encode(), ":7: prt: unknown key `prt` (did"),
    "old line ends": ((DEPLOYMENT + "prt: 1\n").replace("\n", "\r").encode(), ":7: prt: unknown key `prt` (did"),
    "no last line end": (GOOD + b"prt: 1", ":7: prt: unknown key `prt` (did you mean `port`?)"),
    "byte order mark and a mistake": (b"\xef\xbb\xbf" + GOOD + b"prt: 1\n", ":7: prt: unknown key `prt` (did"),
    "markup": (b"<a>\n</a>\n", f':1: expected `key: value` lines, found the text "<a> </a>" {NO_KEYS}'),
    "name=value lines": (b"a=b\nc=d\n", f':1: expected `key: value` lines, found the text "a=b c=d" {NO_KEYS}'),
    "a key file": (b"-----BEGIN KEY-----\nAAAA\n", ':1: expected `key: value` lines, found the text "-----BEGIN KEY'),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_configuration(tmp_path: Path, name: str) -> None:
    data, said = BYTES[name]
    write(tmp_path, d="")
    file = tmp_path / "deployments" / "d.yaml"
    file.write_bytes(data)
    (found,) = refused(tmp_path)
    assert found.startswith(f"{file}{said}")
    assert found.endswith(")")
    assert len(found) < 1000


# --------------------------------------------------------------------------------------------------- files, no files


def _folder(file: Path) -> None:
    file.mkdir()


def _link(target: str) -> Any:
    return lambda file: file.symlink_to(target)


def _listener(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(file.parent)  # a socket's path must stay short
        try:
            one.bind(file.name)
        finally:
            os.chdir(here)


NO_FILES: dict[str, tuple[Any, str]] = {
    "folder": (_folder, "not a regular file (put the configuration here)"),
    "pipe": (os.mkfifo, "not a regular file (put the configuration here)"),
    "socket": (_listener, "not a regular file (put the configuration here)"),
    "device": (_link("/dev/zero"), "not a regular file (put the configuration here)"),
    "link to nowhere": (
        _link("nowhere"),
        "there is no such file (config/sparkd.yaml in the source tree is one to begin",
    ),
    "link to itself": (_link("d.yaml"), "cannot be read: Too many levels of symbolic links (look at owner and rights)"),
}


@pytest.mark.parametrize("name", NO_FILES)
def test_what_is_no_file_is_not_read(tmp_path: Path, name: str) -> None:
    make, said = NO_FILES[name]
    write(tmp_path)
    file = tmp_path / "deployments" / "d.yaml"
    make(file)
    (found,) = refused(tmp_path)
    assert found.startswith(f"{file}: {said}")


@contextmanager
def nobody() -> Iterator[None]:
    """Root may read everything, so for a moment we are somebody else."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_file_that_nobody_may_read() -> None:
    with TemporaryDirectory() as folder:
        where = Path(folder)
        where.chmod(0o755)
        write(where, d=DEPLOYMENT)
        file = where / "deployments" / "d.yaml"
        file.chmod(0)
        with nobody():
            found = refused(where)
    assert found == [f"{file}: cannot be read: Permission denied (look at owner and rights)"]


def test_a_folder_without_sparkd_yaml_and_one_that_is_not_there(tmp_path: Path) -> None:
    for where, file in ((tmp_path, tmp_path / "sparkd.yaml"), (tmp_path / "gone", tmp_path / "gone")):
        (found,) = refused(where)
        assert found.startswith(f"{file}: there is no such file")


# ------------------------------------------------------------------------------------------------------- environment

VARIABLES: dict[tuple[str, str], str] = {
    ("CLUSTER", ""): "CLUSTER: expected a text, found nothing (leave the key out)",
    ("NODES", "a"): 'NODES: expected a mapping, found the text "a" (write {NAME: {address: …}})',
    ("NODES__A", "x"): 'NODES__A: expected a mapping, found the text "x" (write {address: …}; known here: address,',
    ("NODES__B__PORT", "99999"): "NODES__B__PORT: 99999 is out of range (write a number from 1 to 65535)",
    (
        "NODES__B__ADDRESS",
        "me@h",
    ): "NODES__B__ADDRESS: the user is not part of the address (write `address: h, user: me`)",
    ("POLICY__PERIOD", "nan"): 'POLICY__PERIOD: expected a number, found the text "nan" (write a number that is finite',
    ("POLICY__PERIOD", "5s"): 'POLICY__PERIOD: expected a number, found the text "5s" (write 5: durations are seconds)',
    ("POLICY__PERIOD", "-1"): "POLICY__PERIOD: -1 is not more than 0 (write a number above 0)",
    ("POLICY__BUDGET__STARTS", "1.5"): "POLICY__BUDGET__STARTS: expected a whole number, found the number 1.5 (write a",
    (
        "POLICY__RESOURCE_RETRIES",
        "[1",
    ): 'POLICY__RESOURCE_RETRIES: expected a list, found the text "[1" (write the list',
    ("POLICY__PERIODS", "1"): "POLICY__PERIODS: unknown key `periods` (did you mean `period`?)",
    ("HTTP__LISTN", "x"): "HTTP__LISTN: unknown key `listn` (did you mean `listen`?)",
    ("HTTP__LISTEN", "\x1b[31m"): r"HTTP__LISTEN: `\x1b[31m` is not HOST:PORT (write 127.0.0.1:9477",
    ("HTTP__TOKEN_FILE", "\udcff"): "HTTP__TOKEN_FILE: `\ufffd` is relative: to which node's folder? (write the path",
    ("CLEANUP__SWAPOFF", "maybe"): 'CLEANUP__SWAPOFF: expected true or false, found the text "maybe" (write true or f',
    ("CHECKS__SWAP", "loud"): "CHECKS__SWAP: `loud` means nothing here (write off or warn or fail)",
    ("PATHS__RUN", "run"): "PATHS__RUN: `run` is relative: to which node's folder? (write the path from `/`)",
    ("NOTIFY__WEBHOOK", "{}"): 'NOTIFY__WEBHOOK: expected a mapping, found the text "{}" (write {url: …}; known here:',
}


@pytest.mark.parametrize(("variable", "value"), VARIABLES, ids=ascii)
def test_a_variable_that_is_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"SPARKD_{variable}", value)
    said = f"{write(tmp_path)}/sparkd.yaml: SPARKD_{VARIABLES[variable, value]}"
    assert [found for found in refused(tmp_path) if found.startswith(said)], refused(tmp_path)
