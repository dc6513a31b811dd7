"""Two statuses, one after the other, turned into notices of what changed between them, and those delivered.

Delivery has its own tasks and bounded queues: a receiver that hangs holds up neither the loop nor another receiver.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import subprocess
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sparkd import clock
from sparkd.errors import SparkdError
from sparkd.metrics import Counters
from sparkd.model.config import Notify, Webhook
from sparkd.model.words import between, sentence
from sparkd.status import rfc3339

log = structlog.get_logger("sparkd.notify")

Json = Mapping[str, Any]
