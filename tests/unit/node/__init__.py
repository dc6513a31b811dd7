"""The node service as it runs on a node: a process of its own, asked over its socket about real processes and files."""
