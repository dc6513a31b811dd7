"""SGLang, which sparkd does not run."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(
    name="sglang",
    engine="sglang",
    titles=("sglang",),
    commands=(("-m", "sglang.launch_server"),),
    starts=r"sglang\.launch_server",
    about="sglang",
)
