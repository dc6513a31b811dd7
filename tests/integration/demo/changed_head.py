"""The demo's head with another deployment: what `SPARKD_TEST_DEPLOYMENT` (JSON) says of its host and its secret."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

from sparkd.demo import head
from sparkd.demo.layout import Layout, deployment
from sparkd.model.config import Deployment


def changed(layout: Layout) -> Deployment:
    said, found = json.loads(os.environ["SPARKD_TEST_DEPLOYMENT"]), deployment(layout)
    return replace(found, args={**found.args, "host": said["host"]}, secrets=said["secrets"])


if __name__ == "__main__":
    sys.exit(head.main(sys.argv[1], changed))
