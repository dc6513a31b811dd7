"""Why a node rebooted is told once, in the history of what runs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from check_world import DEPLOYMENT, SPARK1, SPARK2, view

from sparkd.facts.boots import Boots, parse
from sparkd.loop.reboots import tell
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Unknown


@dataclass
class Notes:
    kept: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def recall(self, key: str) -> Mapping[str, Any] | None:
        return self.kept.get(key)

    async def remember(self, key: str, value: Mapping[str, Any]) -> None:
        self.kept[key] = value


@pytest.fixture
def read() -> Boots:
    recorded = sorted((Path(__file__).parents[2] / "facts" / "recorded" / "boots").glob("lab-*.txt"))[0]
    return parse(recorded.read_text())


async def test_a_reboot_is_told_once(read: Boots) -> None:
    notes, told = Notes(), list[tuple[str, ...]]()

    async def record(*event: str) -> None:
        told.append(event)

    first, second = Boot("one", 10, 86400.0), Boot("two", 10, 30.0)
    other = replace(DEPLOYMENT, name="elsewhere", nodes=(SPARK1,))

    async def look(boot: Boot | Unknown, known: Boot) -> None:
        await tell(
            notes, {SPARK2: view(SPARK2, boot=boot)}, {SPARK2: (known.identity, read)}, [DEPLOYMENT, other], record
        )

    await look(first, first)  # the first time it is seen at all
    await look(Unknown("down", 0.0), first)
    await look(second, first)  # the checks have not read the new boot yet
    assert told == []
    await look(second, second)
    await look(second, second)
    assert [(name, kind, sentence.partition(":")[0]) for name, kind, sentence, _ in told] == [
        ("demo", "node-boot", "spark2 rebooted")
    ]
