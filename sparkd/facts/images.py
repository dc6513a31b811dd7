"""Docker's list of a node's images -> every name and id that an image has there, and its id."""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.facts import Fact, FactError
from sparkd.model.printed import document


def parse(text: str) -> Mapping[str, str]:
    try:
        return {
            str(name): str(image["Id"])
            for image in document(text)
            for name in (image["Id"], *(image.get("RepoTags") or ()))
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactError(f"no list of images: {error!r}") from None


IMAGES: Fact[Mapping[str, str]] = Fact("images", parse, via="docker")
