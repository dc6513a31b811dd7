"""What docs/architecture.md promises about cost and speed, measured on the real daemon: `python -m tests.bench`."""
