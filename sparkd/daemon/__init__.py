"""The daemon: the parts wired together, reloaded, and as its API sees them."""
