"""A daemon whose journal was damaged while it was away: it does what is still known, and nothing where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkd.fleet.ledger import Ledger
from sparkd.fleet.load_config import load
from sparkd.journal import Journal
from sparkd.model.decision import Intent, Phase, State
from sparkd.reporting.metrics import Counters

from .test_reloading import CLUSTER, DEPLOYMENT

NAMES = ("ds4", "qwen")


async def loaded(folder: Path) -> Ledger:
    """What a sparkd begins with."""
    journal = Journal(folder / "state")
    await journal.open()
    try:
        ledger = Ledger(await load(folder), journal, Counters())
        await ledger.load()
        return ledger
    finally:
        await journal.aclose()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """Two deployments that start by themselves; one of them was stopped by a person, of the other nothing was ever said."""
    (tmp_path / "deployments").mkdir()
    cluster = CLUSTER.format(folder=tmp_path).replace(
        f"run: {tmp_path}/run", "run: /run/sparkd"
    )  # sockets have short paths
    (tmp_path / "sparkd.yaml").write_text(cluster)
    for number, name in enumerate(NAMES):
        ports = f"port: {8000 + number}\nmaster_port: {29600 + number}\n"
        text = DEPLOYMENT.format(name=name).rstrip() + f"\nautostart: true\n{ports}"
        (tmp_path / "deployments" / f"{name}.yaml").write_text(text)
    journal = Journal(tmp_path / "state")
    await journal.open()
    await journal.save_intent("ds4", Intent(wanted="stopped", by="milo"))
    await journal.save_state("ds4", State(phase=Phase.STOPPED, generation=7, highest=7))
    await journal.aclose()
    return tmp_path


@pytest.mark.parametrize("damage", ["cut", "file", "no file"])
async def test_a_stopped_deployment_does_not_start_because_its_row_was_cut(folder: Path, damage: str) -> None:
    path = folder / "state" / "journal.db"
    if damage == "cut":
        raw = path.read_bytes()
        path.write_bytes(raw.replace(b'{"wanted": "stopped"', b'{"wanted": "upstopp"', 1))
        assert path.read_bytes() != raw
    elif damage == "file":
        path.write_bytes(b"rubbish" * 1000)
    else:
        path.unlink()
    ledger = await loaded(folder)
    assert ledger.intents["ds4"] == Intent(wanted="stopped", by="milo")
    assert (ledger.intents["qwen"].wanted, ledger.intents["qwen"].unread) == ("up", False), "its file says so"
    assert ledger.states["ds4"].generation == 7


async def test_where_nothing_is_known_nothing_is_assumed_of_anybody(folder: Path) -> None:
    """Neither now nor after another restart; a file that comes later was never anybody's."""
    for name in ("journal.db", "intents.json", "states.json"):
        (folder / "state" / name).write_bytes(b"rubbish" * 1000)
    for _ in range(2):
        ledger = await loaded(folder)
        assert {name: one.unread for name, one in ledger.intents.items()} == dict.fromkeys(NAMES, True)
    text = (folder / "deployments" / "ds4.yaml").read_text().replace("ds4", "new").replace("00\n", "09\n")
    (folder / "deployments" / "new.yaml").write_text(text)
    ledger = await loaded(folder)
    assert not ledger.intents["new"].unread
