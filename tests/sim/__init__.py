"""The decision core against a cluster in memory: `cluster` is the world, `driver` the loop of the daemon, and both are told what
goes wrong.
"""
