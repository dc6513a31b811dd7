"""The table of checks -> docs/checks.md."""

from __future__ import annotations

import sys

from sparkd.checks import all_checks
from sparkd.checks.shared.scene import Check, nothing
from sparkd.model.decision import FailureClass

HEAD = """\
# Checks

What sparkd looks for on every node before each start, on demand with `sparkd ctl check` (without a daemon: `sparkd check`), and every
five minutes meanwhile. Written by `make docs` from the checks themselves.

A check that **fails** holds the start, and the hold names it: it heals by itself when the check passes. One that **warns** is shown.
One that could not be read is `unknown`: it is shown and stops nothing. Within ten minutes of a node's boot, what may
only be late is waited for. `checks:` in sparkd.yaml, or in one deployment's file, sets the level of each: `off`, `warn` or `fail`.

    checks: {swap: fail, parity: off}

Texts of checks and of drift name their source: *field reports* are published accounts of vLLM on DGX Spark, *evidence* with a number
was recorded with real vLLM 0.32 on two nodes, a *signature* is a known last line of a log, and `name#123` an issue of that project.
"""

HELD = {
    FailureClass.PERMANENT: "heals by itself",
    FailureClass.RESOURCE: "heals by itself, when there is enough again",
    FailureClass.HARDWARE: "waits for `sparkd ctl release`: a person says that the hardware is well",
}


def checks() -> str:
    rows = [f"| [`{one.code}`](#{one.code}) | {one.level} | {one.description} |" for one in all_checks()]
    table = "\n".join(["| check | level | looked for |", "| --- | --- | --- |", *rows])
    return "\n".join([HEAD, table, "", *(_section(one) for one in all_checks())])


def _section(check: Check) -> str:
    doc = (sys.modules[check.evaluate.__module__].__doc__ or "").strip()
    needs = ", ".join(f"`{fact.name}`" for fact in check.needs)
    if check.asks is not nothing:
        needs += (", then " if needs else "") + "the files and paths it asks for"
    needs = needs or "nothing beyond the look that sparkd takes anyway"
    return f"## {check.code}\n\n{doc}\n\nReads: {needs}. A start held by it {HELD[check.cls]}.\n"
