"""The `sparkd` command, without `ctl`: what may be typed, and what works without a daemon."""
