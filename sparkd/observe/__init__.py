"""One look at the whole cluster: every node asked at once, each with its own deadline, into one frozen Snapshot."""

from sparkd.observe.observer import Observer
from sparkd.observe.unknowns import NodeAccess

__all__ = ["NodeAccess", "Observer"]
