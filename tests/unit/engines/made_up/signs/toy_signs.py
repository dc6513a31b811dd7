"""What its processes look like, in a file as `sparkd/node/signs` has them."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(
    name="toy",
    engine="toy",
    titles=("Toy",),
    commands=(("toy-server",), ("-m", "toy.box")),
    images=("toybox",),
    starts="toy-server",
    about="toy-",
)
