"""`sockets` probe -> TCP sockets on our ports. No text means that no process uses them."""

from __future__ import annotations

import re

from sparkd.engines import ENGINES
from sparkd.facts import Args, Fact, Question, records
from sparkd.model.machine import Socket
from sparkd.model.printed import WHOLE

_STATE = (
    "ESTABLISHED|SYN_SENT|SYN_RECV|FIN_WAIT1|FIN_WAIT2|TIME_WAIT|CLOSE|CLOSE_WAIT|LAST_ACK|LISTEN|CLOSING|NEW_SYN_RECV"
)
_LINE = re.compile(
    rf"({_STATE}) ([0-9a-f.:]+) ({WHOLE}) ([0-9a-f.:]+) ({WHOLE}) ({WHOLE}) ({WHOLE}) ({WHOLE}) ({WHOLE}|-)"
)


def parse(text: str) -> tuple[Socket, ...]:
    return tuple(
        Socket(
            state=match[1],
            local_ip=match[2],
            local_port=int(match[3]),
            remote_ip=match[4],
            remote_port=int(match[5]),
            tx_queue=int(match[6]),
            retransmits=int(match[7]),
            inode=int(match[8]),
            pid=None if match[9] == "-" else int(match[9]),
        )
        for match in records(text, _LINE)
    )


def ask(question: Question) -> Args | None:
    """About the deployment's own ports."""
    deployment = question.deployment
    return {"ports": sorted({use.port for use in ENGINES[deployment.engine].ports(deployment)})}


SOCKETS = Fact("sockets", parse, args=ask)
