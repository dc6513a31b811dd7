"""A model's folder -> how far the hashing of its weights is: `progress DONE TOTAL`, in bytes, and `unread NAME`.

Asking goes on with it; the hashes themselves are in the probe `model`.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import hashing, patience
from sparkd.node.probes.model import asked_folder, place_of, weights_in

_JOB = hashing.Job()


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """Never waits for the hashing itself."""
    folder, hub = asked_folder(args)
    found = patience.answered(folder, lambda _: _hash_on(folder, hub), deadline_s * 0.9)
    unread = "".join(f"unread {os.path.basename(path)}\n" for path in found.unread)
    return f"progress {found.done} {found.total}\n{unread}"


def _hash_on(folder: str, hub: bool) -> hashing.Progress:
    return _JOB.ask([path for path in weights_in(place_of(folder, hub)) if os.path.isfile(path)])
