"""Probe name -> function(args, deadline_s) -> raw text. Every file of this folder is a probe of its name, and holds it as `probe`.

A new one is one file here, and on the head one file in `sparkd.facts` that says what is asked and how its text is read.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Dict, Mapping

from sparkd.node import listed as folder

Probe = Callable[[Mapping[str, Any], float], str]


def listed() -> Dict[str, Probe]:
    """Lists the folder anew."""
    return {name: import_module(f"{__name__}.{name}").probe for name in folder.names(__path__)}


PROBES: Mapping[str, Probe] = listed()
