"""Verb name -> function(node, owner, args, deadline_s) -> result. A new verb is one function and one line."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from sparkd.node.node import Node
from sparkd.node.verbs import ask_parser, files, freeing, memory, ownership, process, ranks


class Verb(NamedTuple):
    """`open` verbs may be asked by a sparkd that is not the owner: they are how it becomes one."""

    act: Callable[[Node, str, Mapping[str, Any], float], Any]
    open: bool = False


VERBS: Mapping[str, Verb] = {
    "hello": Verb(ownership.hello, open=True),
    "claim": Verb(ownership.claim, open=True),
    "drop_caches": Verb(memory.drop_caches),
    "unlink_shm": Verb(memory.unlink_shm),
    "signal": Verb(process.send_signal),
    "read_file": Verb(files.read_file),
    "start_rank": Verb(ranks.start_rank),
    "stop_rank": Verb(ranks.stop_rank),
    "remove_rank": Verb(ranks.remove_rank),
    "inspect_rank": Verb(ranks.inspect_rank),
    "rank_log": Verb(ranks.rank_log),
    "ask_engine": Verb(ask_parser.ask_engine),
    "stop_asking": Verb(ask_parser.stop_asking),
    "swapoff": Verb(freeing.swapoff),
    "empty_caches": Verb(freeing.empty_caches),
}
