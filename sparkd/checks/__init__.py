"""The checks: what really breaks these clusters, looked for before every start. One small pure file each.

Every file of this folder is a check and holds it as `CHECK`; what checks share lies in `shared/`. A new check is one file here,
and facts with their recorded output where it needs more than there are.
"""

from __future__ import annotations

from functools import cache

from sparkd.base import listed
from sparkd.checks.shared.scene import Check


@cache
def all_checks() -> tuple[Check, ...]:
    """In the order in which they are shown. The folder is listed once."""
    found: list[Check] = listed.each(__name__, __path__, "CHECK", lambda check: check.code)
    return tuple(sorted(found, key=lambda check: (check.order, check.code)))
