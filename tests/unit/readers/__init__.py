"""Readers of what nodes and engines print."""
