"""Values with secrets in them -> the same without (rule 13)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sparkd.drift.form import RankForm
from sparkd.drift.values import NotJson
from sparkd.model.hiding import Hiding
from sparkd.model.leaks import leaks
from sparkd.model.secret import is_secret
from sparkd.model.secret_text import elsewhere

MOST_HELD = 64
"""Secrets that one form may hold outside of secrets' files. Each has a hundred spellings, looked for in every leaf: a thousand,
which an engine may write over its own environment, took 18 s."""


class Veil(Hiding):
    """Knows the secret values of the forms it was made for, and hides them wherever they turn up."""

    __slots__ = ()

    @classmethod
    def of(cls, forms: Iterable[RankForm]) -> Veil:
        return cls(()).also(_held(forms))


def _held(forms: Iterable[RankForm]) -> set[str]:
    found = (leak.value for form in forms for leak in leaks({**form.env, **(form.flags or {})}))
    # `-e HF_TOKEN=$HF_TOKEN` in a script names a variable that is set elsewhere: hiding that word would hide what differs.
    return {value for value in found if not elsewhere(value)}


def veiled(form: RankForm, known: Hiding) -> RankForm:
    """A form without secrets, those that are `known` and its own, so that it can be kept: a comparison only needs to
    know that a secret is there. Raises ValueError for one with more than MOST_HELD."""
    held = _held((form,))
    if len(held) > MOST_HELD:
        raise ValueError(f"{len(held)} secrets in it, more than {MOST_HELD}")
    veil = known.also(held)
    flags = form.flags and {name: _flag(veil, name, value) for name, value in form.flags.items()}
    sections = {
        name: veil.tree(getattr(form, name)) for name in ("env", "container", "mounts", "unit", "files", "says")
    }
    return replace(form, flags=flags, **sections)


def _flag(veil: Hiding, name: str, value: Any) -> Any:
    if isinstance(value, NotJson) and not is_secret(name):
        return replace(value, text=veil.text(value.text))  # still known as what it is
    return veil.tree(value, name)
