"""The lab: two node containers with real systemd, sshd and dockerd, and real vLLM, on one machine.

`layout` says what is where, `build` makes and caches what needs the network, `outer` runs the engine the nodes live in,
`nodes` is what tests use, `faults` breaks it in ways that undo themselves.
"""
