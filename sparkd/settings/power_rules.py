"""Rules of `power` of a node in sparkd.yaml: one way to do it, secrets as files, and proof enough for doing it alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from sparkd.model.config import Node
from sparkd.model.leaks import leaks
from sparkd.model.power import Power
from sparkd.settings import shared_rules
from sparkd.settings.shape import NEVER, Fault
from sparkd.settings.tree import Item, Path, describe

METHODS = ("GET", "POST", "PUT")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def with_header_files(tree: Item, found: list[Fault]) -> Item:
    """`headers: {NAME: {file: PATH}}` -> name and path, as the values have them; anything else is a problem in `found`."""
    nodes = tree.at("nodes")
    if nodes is None or not isinstance(nodes.value, dict):
        return tree
    for name, node in tree.mapping("nodes").items():
        power, headers = node.at("power"), node.at("power", "headers")
        if power is None or headers is None or not isinstance(headers.value, dict):
            continue
        files = {key: file for key, item in headers.value.items() for file in _file(item, found)}
        read = power.with_child("headers", replace(headers, value=files))
        nodes = nodes.with_child(name, node.with_child("power", read))
    return tree.with_child("nodes", nodes)


def _file(item: Item, found: list[Fault]) -> Iterator[Item]:
    file = item.child("file")
    if file is None or len(item.mapping()) != 1:
        what = describe(item) if isinstance(item.value, dict | tuple | None) else "a value"
        fix = "write {file: /etc/sparkd/NAME}, and the header's value into that file"
        found.append(Fault(item.path, f"expected the file that holds the header's value, found {what}", fix))
    else:
        yield file


def findings(at: Path, node: Node) -> Iterator[Fault]:
    power = node.power
    if power is None:
        return
    if bool(power.command) == (power.url is not None):
        found = "both a command and a url" if power.command else "neither a command nor a url"
        yield Fault(at, found, "write one of `command: [/path/of/program, …]` and `url: http://…`")
    elif power.command:
        yield from shared_rules.absolute((*at, "command", 0), power.command[0])
    else:
        yield from _request(at, power)
    for name, file in power.headers.items():
        if not _HEADER.fullmatch(name):
            yield Fault(
                (*at, "headers", name), f"`{name}` is no name of a header", "write it as in HTTP: Authorization"
            )
        yield from shared_rules.absolute((*at, "headers", name), file)
    yield from _secrets(at, power)
    if power.auto and node.is_local:
        yield Fault((*at, "auto"), "sparkd runs on this node: when it is gone, so is sparkd", "leave `auto` out")
    elif power.auto and node.data_address is None:
        found = "without `data_address` there is one network only, and its silence proves nothing"
        yield Fault((*at, "auto"), found, "write the node's `data_address`, or leave `auto` out")


def _request(at: Path, power: Power) -> Iterator[Fault]:
    yield from shared_rules.choice((*at, "method"), power.method, METHODS)
    try:
        parts = urlsplit(power.url or "")
        good = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in parts.geturl()
        )
    except ValueError:  # a port that is none, a broken IPv6 literal
        good = False
    if not good:
        yield Fault((*at, "url"), f"`{power.url}` is no web address", "write http://HOST/PATH")


def _secrets(at: Path, power: Power) -> Iterator[Fault]:
    """Passwords of addresses are found everywhere in sparkd.yaml; here also what a program or a body is given by name."""
    whole = {"command": power.command, "body": power.body}
    for leak in leaks({key: value for key, value in whole.items() if value}):
        if leak.name:
            fix = "let the program read it from a file of its own, or send it as a header: `headers: {NAME: {file: …}}`"
            yield Fault((*at, *leak.path), f"`{leak.name}` is a secret: {NEVER}", fix)
