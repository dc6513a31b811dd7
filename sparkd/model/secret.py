"""Which names hold secrets, and what is shown instead of their values (rule 13)."""

from __future__ import annotations

HIDDEN = "<redacted>"
SECRET_ENDINGS = ("_TOKEN", "_KEY", "_SECRET", "PASSWORD")


def is_secret(name: str) -> bool:
    """Is the value of this environment variable a secret by its name? `--max-num-batched-tokens` is none."""
    return name.upper().endswith(SECRET_ENDINGS)
