"""Files that people have -> the canonical form of what they run. Read and followed, never executed.

Nothing is imported here: the checks read argument vectors with `docker_run` and `programs`, and must not bring the YAML
reader into the daemon (docs/benchmarks.md). Begin with `sparkd.importers.read`.
"""
