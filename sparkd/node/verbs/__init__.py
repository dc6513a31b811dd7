"""Name of an operation -> function(node, owner, args, deadline_s) -> result. A new one is one function and one line."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from sparkd.node.node import Node
from sparkd.node.verbs import ask_parser, files, freeing, memory, ownership, process, ranks


class Operation(NamedTuple):
    """What is `open` may be asked by a sparkd that is not the owner: that is how it becomes one."""

    act: Callable[[Node, str, Mapping[str, Any], float], Any]
    open: bool = False


OPERATIONS: Mapping[str, Operation] = {
    "hello": Operation(ownership.hello, open=True),
    "claim": Operation(ownership.claim, open=True),
    "drop_caches": Operation(memory.drop_caches),
    "unlink_shm": Operation(memory.unlink_shm),
    "signal": Operation(process.send_signal),
    "read_file": Operation(files.read_file),
    "start_rank": Operation(ranks.start_rank),
    "stop_rank": Operation(ranks.stop_rank),
    "remove_rank": Operation(ranks.remove_rank),
    "inspect_rank": Operation(ranks.inspect_rank),
    "rank_log": Operation(ranks.rank_log),
    "ask_engine": Operation(ask_parser.ask_engine),
    "stop_asking": Operation(ask_parser.stop_asking),
    "swapoff": Operation(freeing.swapoff),
    "empty_caches": Operation(freeing.empty_caches),
}
