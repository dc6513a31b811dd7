"""Performing one action at a time, each under a deadline; what happened becomes an Outcome, never an exception.

`runner.perform` is the table; one small module per family: `containers`, `cleanup`, `capture`, `canary`.
"""
