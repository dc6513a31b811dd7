"""sparkd.yaml -> Cluster. The environment overrides single values: SPARKD_HTTP__LISTEN is `listen` under `http`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from pydantic import create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from sparkd.base.errors import Problem
from sparkd.model.config import Cluster, Node
from sparkd.settings import memory_rules, power_rules, shared_rules
from sparkd.settings.secret_rules import in_cluster
from sparkd.settings.shape import Fault, place, refused, shape
from sparkd.settings.tree import Item, Path, from_plain, resolve

PREFIX = "SPARKD_"


class _Layers(BaseSettings):
    """The environment over the file, still without types: `shape` judges both alike."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


_SECTIONS: dict[str, Any] = {field.name: (dict[str, Any] | Any, None) for field in fields(Cluster)}
_ClusterLayers = create_model("_ClusterLayers", __base__=_Layers, **_SECTIONS)


def cluster_of(tree: Item, file: str) -> tuple[Cluster | None, tuple[Problem, ...]]:
    """The cluster and every problem. With problems it is a partial one, good for checking deployments against."""
    known = {key: value for key, value in tree.plain().items() if key in _SECTIONS}
    tree = _overlaid(tree, _ClusterLayers(**known).model_dump(exclude_unset=True), ())
    tree, twice = _named(tree)
    tree = power_rules.with_header_files(tree, twice)
    problems = [place(finding, tree, file) for finding in twice]
    shaped = shape(Cluster, tree, file, {"cluster": "?", "nodes": {}})
    problems += shaped.problems
    if shaped.value is not None:
        found = _findings(shaped.value, shaped.tree)
        problems += (place(each, shaped.tree, file) for each in found if not refused(each, tree, shaped.tree))
    return shaped.value, tuple(problems)


def _overlaid(item: Item, layers: Mapping[str, Any], path: Path) -> Item:
    """The tree with what the environment says put in; a problem there is named by its variable."""
    for key, value in layers.items():
        inner, here = item.child(key), (*path, key)
        if isinstance(value, Mapping) and inner is not None and isinstance(inner.value, dict):
            item = item.with_child(key, _overlaid(inner, value, here))
        elif inner is None or inner.plain() != value:
            item = item.with_child(key, _from_environment(value, here))
    return item


def _from_environment(value: Any, path: Path) -> Item:
    if isinstance(value, Mapping):
        return Item({key: _from_environment(inner, (*path, key)) for key, inner in value.items()}, 0, path)
    variable = PREFIX + "__".join(map(str, path)).upper()
    return from_plain(resolve(_text(value)) if isinstance(value, str) else value, (variable,))


def _text(value: str) -> str:
    """Bytes of a variable that are not UTF-8 come as halves of characters, which no other text may hold."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _named(tree: Item) -> tuple[Item, list[Fault]]:
    """Nodes know their names: the key of a node becomes its `name`."""
    nodes, twice = tree.at("nodes"), []
    for name, node in tree.mapping("nodes").items():
        if node.child("name"):
            twice.append(Fault(("nodes", name, "name"), "unknown key `name`", f"the name is `{name}`, the key"))
        if nodes is not None and isinstance(node.value, dict):
            nodes = nodes.with_child(name, node.with_child("name", Item(name, node.line, node.path, name)))
    return (tree if nodes is None else tree.with_child("nodes", nodes)), twice


# --------------------------------------------------------------------------------------------------------------- rules


def _findings(cluster: Cluster, tree: Item) -> Iterator[Fault]:
    if tree.at("cluster") and not cluster.cluster.strip():
        yield Fault(("cluster",), "the name is empty", "write the name that people know it by")
    if tree.at("nodes"):
        yield from _nodes(cluster.nodes)
    yield from shared_rules.numbers(cluster)
    yield from shared_rules.policy(("policy",), cluster.policy)
    yield from shared_rules.checks(("checks",), cluster.checks)
    yield from shared_rules.word(("cleanup", "remove_strays"), cluster.cleanup.remove_strays)
    yield from memory_rules.in_cluster(cluster)
    yield from _paths(cluster)
    yield from _listener(cluster.http.listen)
    yield from _notify(cluster)
    yield from in_cluster(cluster)


def _nodes(nodes: Mapping[str, Node]) -> Iterator[Fault]:
    if not nodes:
        yield Fault(("nodes",), "no nodes", "write `NAME: {address: local}` for the box that sparkd runs on")
        return
    first = next(iter(nodes.values()))
    heads = [node for node in nodes.values() if node.is_local]
    if not heads:
        fix = "write `address: local` for the head, where sparkd runs"
        yield Fault(("nodes", first.name, "address"), "no node has `address: local`", fix)
    for extra in heads[1:]:
        found = f"`{heads[0].name}` is already `local`"
        yield Fault(
            ("nodes", extra.name, "address"), found, "write its host name or IP address: sparkd runs on one node"
        )
    if len(heads) == 1 and not first.is_local:
        found = f"the head (`address: local`) comes after `{first.name}`"
        yield Fault(("nodes", heads[0].name), found, "put it first: the first node is the head")
    for node in nodes.values():
        yield from _node(node)
    remote = [node for node in nodes.values() if not node.is_local]
    yield from shared_rules.duplicates(
        ((("nodes", n.name, "address"), f"{n.address}:{n.port}") for n in remote), "address"
    )
    yield from shared_rules.duplicates(
        ((("nodes", n.name, "data_address"), n.data_address) for n in nodes.values()), "data address"
    )


def _node(node: Node) -> Iterator[Fault]:
    at: Path = ("nodes", node.name)
    if not re.fullmatch(shared_rules.NODE_NAME, node.name):
        yield Fault(at, f"`{node.name}` is no node name", "use letters, digits, dots and dashes")
    yield from shared_rules.absolute((*at, "key"), node.key)
    yield from power_rules.findings((*at, "power"), node)
    if node.address in ("localhost", "127.0.0.1", "::1"):
        yield Fault((*at, "address"), f"`{node.address}` is this box", "write `local`: no SSH is needed here")
    elif "@" in node.address:
        login, _, host = node.address.rpartition("@")
        user = login.partition(":")[0]
        yield Fault((*at, "address"), "the user is not part of the address", f"write `address: {host}, user: {user}`")
    elif not re.fullmatch(r"[A-Za-z0-9._:-]+", node.address) or _no_quad(node.address):
        yield Fault((*at, "address"), f"`{node.address}` is no address", "write a host name or an IP address")
    if not re.fullmatch(r"[a-z_][a-z0-9_.-]*", node.user):
        yield Fault((*at, "user"), f"`{node.user}` is no user name", "write the SSH login")
    if node.data_address is not None and not _is_ip(node.data_address):
        found = f"`{node.data_address}` is no IP address"
        yield Fault((*at, "data_address"), found, "write the node's own address on the fabric, without prefix length")


def _no_quad(text: str) -> bool:
    """`192.168.1.512`: digits and dots are an IP address or nothing."""
    return re.fullmatch(r"[0-9.]+", text) is not None and not _is_ip(text)


def _is_ip(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _paths(cluster: Cluster) -> Iterator[Fault]:
    paths = cluster.paths
    yield from shared_rules.absolute(("paths", "state"), paths.state)
    yield from shared_rules.absolute(("paths", "run"), paths.run)
    if len(paths.run.encode()) > 70:
        found = "too long: a Unix socket below it may have 107 bytes"
        yield Fault(("paths", "run"), found, "write a path of at most 70 bytes")
    for index, root in enumerate(paths.node_read_roots):
        yield from shared_rules.absolute(("paths", "node_read_roots", index), root)
    yield from shared_rules.absolute(("http", "token_file"), cluster.http.token_file)


def _listener(listen: str) -> Iterator[Fault]:
    host, _, port = listen.rpartition(":")
    if listen and not (host and port.isdecimal() and int(port) <= 65535):
        yield Fault(("http", "listen"), f"`{listen}` is not HOST:PORT", 'write 127.0.0.1:9477, or "" for none')


def _notify(cluster: Cluster) -> Iterator[Fault]:
    notify = cluster.notify
    if notify.urls:
        fix = "use `webhook` or `exec`"
        yield Fault(("notify", "urls"), "this version delivers to no service URLs", fix)
    for index, command in enumerate(notify.exec):
        if index and not command.startswith("/"):  # not repeated: `[/srv/tell, --token, abc]` is what people write
            fix = "write one path for each program, and arguments into a script of its own"
            yield Fault(("notify", "exec", index), "no path: programs get no arguments here", fix)
        else:
            yield from shared_rules.absolute(("notify", "exec", index), command)
    if notify.webhook is not None:
        yield from shared_rules.absolute(("notify", "webhook", "secret_file"), notify.webhook.secret_file)
        if not _is_web(notify.webhook.url):
            found = f"`{notify.webhook.url}` is no web address"
            yield Fault(("notify", "webhook", "url"), found, "write https://HOST/PATH")


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:  # a port that is none, a broken IPv6 literal
        return False
