"""What a start would take away on every node, with sizes: for `--dry-run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import Refused
from sparkd.model.size import spoken


def would_clean(api: Api, name: str, clean: bool) -> Mapping[str, Any]:
    """Node -> figures in bytes; nothing from a daemon that cannot tell."""
    try:
        answer = api.get(f"/api/v1/deployments/{quote(name)}/cleanup{'?clean=true' if clean else ''}")
    except Refused:  # an older daemon has no such path, and the rest of a dry run is true without it
        return {}
    nodes = answer.get("nodes")
    return nodes if isinstance(nodes, dict) else {}


def sentences(nodes: Mapping[str, Any]) -> Iterator[str]:
    for node, found in nodes.items():
        if "why" in found:
            yield f"{node}: cannot be looked at: {found['why']}"
            continue
        parts = [f"{spoken(found['page_cache'])} of page cache"] if found["drop_caches"] else []
        if found["shm"]:
            segments = "1 segment" if len(found["shm"]) == 1 else f"{len(found['shm'])} segments"
            parts.append(f"{segments} of shared memory that nobody holds ({spoken(sum(found['shm'].values()))})")
        if found["swapoff"]:
            parts.append(f"{spoken(found['swap_used'])} taken back from swap")
        parts += [f"{spoken(count)} in {path}" for path, count in found["caches"].items() if count]
        # A daemon that is older says nothing of what it would end.
        parts += [f"{what} ({spoken(count)})" for what, count in found.get("ends", {}).items()]
        yield f"{node}: {', '.join(parts) or 'nothing to clean'}"
