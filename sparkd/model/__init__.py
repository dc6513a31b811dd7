"""Frozen values that every other part speaks in: configuration, what was seen, what was decided."""
