"""What is different from when it worked, asked as a person would: blessed, edited, restarted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .demo_world import Terminal, demo_on_a_terminal

pytestmark = pytest.mark.slow


def test_an_edit_is_drift_of_the_next_start_and_then_of_what_runs(folder: Path) -> None:
    with demo_on_a_terminal() as demo:
        env = {"SPARKD_SOCKET": demo.found(r"SPARKD_SOCKET=(\S+)")}

        def ctl(*words: str) -> tuple[int, str]:
            terminal = Terminal("ctl", *words, columns=150, env={**env, "NO_COLOR": "1"})
            return terminal.end(), terminal.text

        def names(*words: str) -> list[tuple[str, str]]:
            """Without what is the machine's own: the lab, tested beside this, turns on its swap."""
            found = json.loads(ctl("drift", "--json", *words)[1])["findings"]
            return [(one["severity"], one["name"]) for one in found if one["kind"] != "host"]

        code, said = ctl("drift")
        assert (code, "sparkd ctl drift demo --against wanted" in said) == (1, True)
        assert ctl("bless", "-m", "as it should be")[0] == 0
        (kept,) = json.loads(ctl("known-good", "list", "--json")[1])["known_good"]
        assert ctl("bless", "--generation", str(kept["generation"]))[0] == 0
        assert "as it should be" in ctl("known-good", "list")[1], "blessed again, it keeps its note"
        assert ctl("drift", "--against", "99")[1].split("fix:")[1].strip() == f"there is: {kept['generation']}"
        assert names() == []
        kept = ctl("known-good", "show")[1]
        assert ("given:" in kept, "in-use:" in kept) == (True, True), "what the engine says of itself"

        assert Terminal("demo", "fault", "drift").end() == 0
        assert names() == [], "what runs is what worked, whatever its file says by now"
        code, said = ctl("drift", "--against", "wanted")
        assert (code, said.strip().splitlines()[-1].split("  ")[1]) == (5, "sparkd ctl restart demo")
        assert names("--against", "wanted") == [("slows", "--max-num-seqs")]
        (one,) = json.loads(ctl("drift", "--json", "--against", "wanted")[1])["findings"]
        assert one["fix"] is None, "one restart is the remedy, and no flag to give again"

        assert ctl("restart", "demo", "--yes", "--wait")[0] == 0
        assert names() == [("slows", "--max-num-seqs")]
        (told,) = [one for one in json.loads(ctl("history", "--json")[1])["events"] if one["kind"] == "drift"]
        assert re.fullmatch(r"differs from known-good \d+ in: --max-num-seqs \(slows\)", told["sentence"])
        undone = [line.split("  ")[1] for line in ctl("drift")[1].strip().splitlines()[-2:]]
        assert undone == ["sparkd ctl known-good rollback demo", "sparkd ctl bless demo"]
        code, said = ctl("drift", "--build")
        assert (code, "no image" in said) == (1, True)
