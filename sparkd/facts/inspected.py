"""Docker's own words about a node's containers and their images -> how each was made, without its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.facts import Fact, FactError
from sparkd.model.hiding import BY_NAME
from sparkd.model.printed import document

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """`containers` and `images` hold inspects by id; only images of those containers are there."""

    version: str
    """Of the Docker daemon."""
    containers: Mapping[str, Json]
    images: Mapping[str, Json]


def parse(text: str) -> Inspected:
    """Raises FactError for what is no such answer."""
    try:
        found = document(text)
        return Inspected(
            version=str(found["version"]),
            containers={str(one["Id"]): _veiled(one) for one in found["containers"]},
            images={str(one["Id"]): _veiled(one) for one in found["images"]},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactError(f"no containers and images: {error!r}") from None


def _veiled(one: dict[str, Any]) -> Json:
    """Values of secret names go before anything is kept of it; those in arguments go with the form of the rank."""
    config = one.get("Config")
    if not isinstance(config, dict):
        raise TypeError("an inspect without Config")
    return {**one, "Config": {**config, "Env": BY_NAME.tree([str(pair) for pair in config.get("Env") or ()])}}


INSPECTED: Fact[Inspected] = Fact("inspected", parse, via="docker")
