"""What nobody would print on purpose, and whether a value that was read can be worked with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

DIGITS = "9" * 5000
DEEP = "[" * 10_000 + "]" * 10_000
MONSTERS = (
    *(
        "",
        "\n",
        "\0",
        "\ud800",
        "\u2028",
        "²",
        "٣",
        "-",
        "1_000",
        "0x1f",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "-1e999",
        "1e308",
    ),
    *(
        DIGITS,
        f"-{DIGITS}",
        f"{DIGITS}.5",
        f"0.{DIGITS}",
        "x" * 100_000,
        " " * 20_000,
        DEEP,
        '{"a":' * 2000,
        "{" * 5000,
    ),
    *(
        "%i" * 40 + "X",
        "\x1b[2J\r\x07",
        "a\nb",
        ' ; argv[]=" ; start_time=' * 500,
        "}" * 5000,
        '\\"' * 5000,
        "None",
        "null",
    ),
)


def checked(value: Any) -> None:
    """Can it be worked with: printed, added up, compared with itself?"""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            checked(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            checked(key)
            checked(one)
    elif isinstance(value, list | tuple | frozenset):
        for one in value:
            checked(one)
    elif isinstance(value, float):
        assert not math.isnan(value)
    elif isinstance(value, int):
        float(value)
        str(value * 1024)
