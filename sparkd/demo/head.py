"""`python -m sparkd.demo.head FOLDER`: sparkd itself, as `sparkd run` runs it, on the two nodes of a demo."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sparkd.daemon.run import serve
from sparkd.demo.layout import Layout, cluster, deployment, load
from sparkd.demo.node import DemoNode
from sparkd.demo.oom import DemoRuntime
from sparkd.hosts.host import Host, Sockets
from sparkd.hosts.local import LocalHost
from sparkd.model.config import Config, Deployment, Node
from sparkd.observe import NodeAccess


def main(folder: str, wanted: Callable[[Layout], Deployment] = deployment) -> int:
    layout = load(Path(folder))

    def reach(node: Node, owner: str, wake: Callable[[], None]) -> tuple[Host, NodeAccess]:
        host = LocalHost(node.name, Sockets(service=layout.service(node.name)))
        runtime = DemoRuntime(node.name, layout.ranks(node.name), layout.victims)
        return host, NodeAccess(client=DemoNode(host, owner, runtime), docker=runtime, process=runtime)

    return serve(Config(cluster=cluster(layout), deployments=(wanted(layout),)), reach)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
