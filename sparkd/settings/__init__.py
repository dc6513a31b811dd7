"""The YAML files of a configuration directory -> frozen values, or every problem and what to write instead.

The daemon never imports this: pydantic and the YAML library stay in memory for good. It asks a child (`sparkd.fleet.load_config`).
"""

from __future__ import annotations

from sparkd.settings.files import check, load, load_deployment

__all__ = ["check", "load", "load_deployment"]
