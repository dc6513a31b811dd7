"""The node service: one small root program on every node; fixed requests -> raw facts, and a few guarded acts.

It imports the standard library only and runs on the node's own Python, 3.9 or later. What it speaks is in `protocol`.
"""
