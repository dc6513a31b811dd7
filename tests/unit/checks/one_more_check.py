"""A program: sparkd with one check more, from a file of the tests. Prints as JSON where that check is seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
from check_world import CLUSTER, DEPLOYMENT, NODES, view
from click.testing import CliRunner

import sparkd.checks
from sparkd.engines.tables import SHIPPED, Tables

MADE_UP = Path(__file__).with_name("made_up")


class Elsewhere:
    """Surveyor and asking in one, with nothing to add to what the loop has seen."""

    answered: Any = None

    async def survey(self, scene: Any, checks: Any) -> Any:
        return scene

    async def answer(self, deployment: Any) -> Any:
        from sparkd.background.parser_interview import ParserAnswer

        return ParserAnswer(None)

    def tables(self) -> Tables:
        return SHIPPED


def found() -> Any:
    """One run of the checks, as the daemon does it."""
    from sparkd.background.checks_runner import Checker
    from sparkd.model.decision import Phase, State
    from sparkd.model.snapshot import Snapshot

    around = cast(Any, Elsewhere())
    checker = Checker(surveyor=around, asking=around, owner="us", wake=lambda: None)
    seen = Snapshot(at=0.0, wall=0.0, owner="us", nodes={name: view(name) for name in NODES})
    return anyio.run(checker.check, CLUSTER, DEPLOYMENT, State(Phase.STOPPED, since=0.0), seen)


def seen_in() -> dict[str, Any]:
    from docs.checks import checks
    from status_world import SERVING
    from status_world import view as cluster

    from sparkd.cli.main import cli
    from sparkd.reporting.status import status
    from sparkd.settings.schema import cluster_schema, deployment_schema
    from sparkd.settings.shared_rules import checks as allowed

    whole = found()
    alone = replace(whole, generation=None, findings=tuple(one for one in whole.findings if one.code == "full-moon"))
    world = cluster(SERVING)
    assert world.snapshot is not None
    told = status(replace(world, snapshot=replace(world.snapshot, checks={"ds4": alone})))
    listed = CliRunner().invoke(cli, ["check", "--list", "--json"])
    return {
        "listed": [one["code"] for one in json.loads(listed.stdout)["checks"]],
        "shown": CliRunner().invoke(cli, ["check", "--list"]).stdout,
        "found": [[one.code, one.node, str(one.status), one.text] for one in alone.findings],
        "docs": checks(),
        "schemas": [
            schema["properties"]["checks"]["propertyNames"]["enum"]
            for schema in (cluster_schema(), deployment_schema())
        ],
        "status": told["deployments"][0]["checks"],
        "refused": [str(one) for one in allowed(("checks",), {"full-moon": "fail"})],
    }


if __name__ == "__main__":
    sparkd.checks.__path__.append(str(MADE_UP))
    print(json.dumps(seen_in()))
