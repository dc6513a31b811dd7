"""Which engine an answer is about: an image's own, what an image and mounts of the node are together, or a venv's."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class EngineKey:
    """Two with the same key have the same parser. `stamp` is empty where the engine lies in the image alone."""

    image_id: str
    """Empty without a container."""
    program: str = ""
    """The program of the command: an image may hold two engines."""
    stamp: str = ""
    """Times and sizes of the mounts that carry the engine, or of its files: what is installed there anew is another engine."""

    @property
    def id(self) -> str:
        """The key of the engine's flag table: the image's id alone, where nothing else decides."""
        return self.digest if self.stamp else self.image_id

    @property
    def digest(self) -> str:
        said = "\n".join((self.image_id, self.program, self.stamp))
        return sha256(said.encode()).hexdigest()[:32]
