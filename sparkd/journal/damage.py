"""What was damaged and where it was taken from -> what history says of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.journal.rows import TWICE, Rows

LOST = {
    "meta": ("note-unreadable", "a note of sparkd's to itself is damaged, and is passed over"),
    "states": ("state-unreadable", "the saved state is damaged, in its spare too: looking afresh"),
    "intents": (
        "intent-unreadable",
        "what was wanted of it is damaged, in its spare too: nothing is done until it is said",
    ),
    "outages": ("outage-unreadable", "the record of an outage is damaged, and is left out of the sums"),
}
"""Table -> reason and sentence for a row that is whole in neither copy."""


def damage(rows: Rows, file: str) -> Iterator[tuple[str, str, str]]:
    """(reason, sentence, deployment or nothing): rows that are not the file's own, and rows that are lost."""
    if rows.mended:
        back = " and ".join(f"{len(names)} {table}" for table, names in rows.mended.items())
        names = ", ".join(dict.fromkeys(name for found in rows.mended.values() for name in found))
        said = f"{file} was gone, or rows of it were damaged, missing or old; {back} are back from their spare"
        yield "journal-restored", f"{said} ({names})", ""
    for table, lost in rows.lost.items():
        for name in lost:
            yield *LOST[table], name if table in TWICE else ""
