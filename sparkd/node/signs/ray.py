"""Ray, under which other engines run."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(
    name="ray",
    titles=("ray",),
    commands=(("raylet",),),
    starts=r"\bray start",
    about=r"(?<![a-z])ray(?:let| start|::)",
    loosely=r"\bray\b",
)
