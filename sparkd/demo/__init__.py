"""The embedded demo: two local ranks of a simulated engine, supervised like real ones."""
