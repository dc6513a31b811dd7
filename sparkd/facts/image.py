"""Docker's inspect of the deployment's image -> what must be the same on every node; `null` where it is missing."""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.facts import Args, Fact, FactError, Question
from sparkd.model.printed import document


@dataclass(frozen=True, slots=True)
class Image:
    """`id` is the digest of its configuration, the same wherever the same image is. `env` is what it sets itself."""

    id: str
    architecture: str
    env: tuple[str, ...]
    created: str = ""


@dataclass(frozen=True, slots=True)
class NoImage:
    """The image is not on this node."""


def parse(text: str) -> Image | NoImage:
    try:
        found = document(text)
        if found is None:
            return NoImage()
        return Image(
            id=str(found["Id"]),
            architecture=str(found["Architecture"]),
            env=tuple(map(str, found["Config"].get("Env") or ())),
            created=str(found.get("Created", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactError(f"no image's inspect: {error!r}") from None


def _args(question: Question) -> Args | None:
    return {"ref": question.deployment.image}


IMAGE: Fact[Image | NoImage] = Fact("image", parse, _args, via="docker")
