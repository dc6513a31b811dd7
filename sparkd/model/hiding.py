"""Known secret values, and what stands under the names of secrets -> out of texts and trees of JSON values (rule 13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sparkd.model import secret_text
from sparkd.model.secret import HIDDEN, holds_secret, is_flag, is_reference, is_secret
from sparkd.model.spellings import SHORTEST, spellings

H = TypeVar("H", bound="Hiding")


@dataclass(frozen=True, slots=True)
class Hiding:
    """Hides secrets. `knowing` makes one that knows values; `BY_NAME` goes by names and places alone."""

    forms: tuple[str, ...]
    """All spellings of every known value, the longest first."""
    names: frozenset[str] = frozenset()
    """Variables that hold secrets whatever they are called: those under `secrets:`."""

    @classmethod
    def knowing(cls: type[H], values: Iterable[str], names: Iterable[str] = ()) -> H:
        return cls(spellings(values), frozenset(names))

    def also(self: H, values: Iterable[str]) -> H:
        """One that knows these values too."""
        forms = {*self.forms, *spellings(values)}
        return replace(self, forms=tuple(sorted(forms, key=lambda form: (-len(form), form))))

    def known(self, text: str) -> str:
        """Without the known values in any of their spellings."""
        for form in self.forms:
            text = text.replace(form, HIDDEN)
        return self._cut(text) if self.forms else text

    def _cut(self, text: str) -> str:
        """A shortened text may hold half a secret, which goes too: a first half at its end, a second half at its beginning."""
        end = len(text.rstrip(".…"))
        for form in self.forms:
            at = text.rfind(form[:SHORTEST], max(end - len(form), 0), end)
            if at >= 0 and form.startswith(text[at:end]):
                text = text[:at] + HIDDEN + text[end:]
                break
        for form in self.forms:
            at = text.find(form[-SHORTEST:], 0, len(form))
            if at >= 0 and form.endswith(text[: at + SHORTEST]):
                return HIDDEN + text[at + SHORTEST :]
        return text

    def text(self, text: str) -> str:
        return secret_text.hidden(self.known(text))

    def tree(self, value: Any, name: str = "") -> Any:
        """The same for nested JSON values, leaf by leaf: what lies under a secret's name, the words after a flag in an argument
        vector, `NAME=value`. Keys are leaves too; null and switches are no secrets."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Mapping):
            return {self._key(key): self._under(key, one, name, value) for key, one in value.items()}
        if self._is_secret(name) and not is_reference(name, str(value)):
            return HIDDEN if value else value  # of a list too: not even the number of its values is shown
        if isinstance(value, list | tuple):
            words = self._words(value)
            return tuple(words) if isinstance(value, tuple) else list(words)
        if isinstance(value, str):
            return self._word(value)
        return HIDDEN if self.known(str(value)) == HIDDEN else value

    def _is_secret(self, name: str) -> bool:
        return name in self.names or is_secret(name)

    def _key(self, key: Any) -> Any:
        return self.text(key) if isinstance(key, str) else key

    def _under(self, key: Any, value: Any, name: str, siblings: Mapping[Any, Any]) -> Any:
        """A subtree of a secret stays one, and so does `{"name": "HF_TOKEN", "value": …}`."""
        if self._is_secret(name):
            return self.tree(value, name)
        said = siblings.get("name", siblings.get("Name"))
        return self.tree(value, said if isinstance(said, str) and str(key).lower() == "value" else str(key))

    def _words(self, words: Sequence[Any]) -> Iterator[Any]:
        """A flag of a secret's name hides what follows it, up to the next flag."""
        inside = ""
        for word in words:
            if is_flag(word):
                inside = word if "=" not in word else ""
                yield self._word(word)
            else:
                yield self.tree(word, inside)

    def _word(self, word: str) -> str:
        """A value that is `NAME=value` as a whole may have blanks in it."""
        name, equals, value = word.partition("=")
        if equals and not set(name) & set(" \t\n\"'{[:/?&") and (name in self.names or holds_secret(name, value)):
            return f"{name}={value and HIDDEN}"
        return self.text(word)


BY_NAME = Hiding(())
"""For whatever is not about one deployment, or is far from its secrets' files."""
