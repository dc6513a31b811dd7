"""A deployment file -> the ranks that sparkd would create from it."""

from __future__ import annotations

from pathlib import Path

from sparkd.commandline.following import World
from sparkd.comparing.rendered import form_of
from sparkd.model.config import Cluster, Node
from sparkd.node import regular
from sparkd.render import rank_specs
from sparkd.settings import load, load_deployment
from sparkd.settings.files import CLUSTER_FILE, DEPLOYMENTS
from sparkd.settings.reader import MAX_BYTES, parse


def follow(file: Path, label: str, config: Path | None, world: World) -> None:
    """The cluster is that of `config`, or of the sparkd.yaml that the file lies below. Raises ConfigError."""
    beside = file.absolute().parent.parent / CLUSTER_FILE
    if config is None and file.absolute().parent.name == DEPLOYMENTS and beside.is_file():
        config = beside
    cluster = load(config).cluster if config is not None else _stand_in(file)
    deployment = load_deployment(file, cluster)
    specs = rank_specs(deployment, cluster.nodes, "", 0)
    world.ranks += [form_of(deployment, spec) for spec in specs]
    if config is None and len(specs) > 1:
        for node in cluster.nodes.values():
            world.gap(
                f"{label}:1", str(node.data_address), "no sparkd.yaml tells the addresses of its nodes; give --config"
            )


def _stand_in(file: Path) -> Cluster:
    """A cluster of the nodes that the file names; their addresses are not known."""
    tree, _ = parse(regular.beginning(str(file), MAX_BYTES + 1), str(file))
    item = tree.at("nodes") if tree is not None else None
    names = [str(one) for one in item.plain()] if item is not None and isinstance(item.value, tuple) else []
    nodes = {
        name: Node(name=name, address=name if at else "local", data_address=f"<address of {name}>")
        for at, name in enumerate(names)
    }
    return Cluster(cluster="?", nodes=nodes)
