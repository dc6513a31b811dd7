"""The decision: (state, snapshot, intent, policy, now) -> Decision. Pure: no clock, no I/O, no randomness.

`machine.step` is the only entry. The phases are in `standing`, `starting`, `launching` and `serving`; `teardown` is
shared by all that take a group down. The rest is vocabulary: `case` (what a decision looks at), `group` (the ranks as
seen), `loss` (a generation that ended), `watch` (is it serving?), `needs` (what a start needs), `classify` (the kind of
failure), `budget` (pace), `failing` and `holds` (what happens next).
"""
