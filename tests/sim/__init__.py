"""The decision core against a cluster in memory.

`cluster` is the world, `hands` what actions do to it, `driver` the loop of the daemon.
"""
