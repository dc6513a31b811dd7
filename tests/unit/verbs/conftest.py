"""The daemon that the client's tests talk to is here as well."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "ctl"))
