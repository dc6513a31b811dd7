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
from sparkd.model.secret_text import passwords, without


class Veil(Hiding):
    """Knows the secret values of the forms it was made for, and hides them wherever they turn up."""

    __slots__ = ()

    @classmethod
    def of(cls, forms: Iterable[RankForm]) -> Veil:
        return cls(()).also(_held(forms))


def _held(forms: Iterable[RankForm]) -> set[str]:
    return {leak.value for form in forms for leak in leaks({**form.env, **(form.flags or {})})}


def without_passwords(text: str) -> str:
    return without(text, passwords(text))


def veiled(form: RankForm, known: Hiding) -> RankForm:
    """A form without secrets, those that are `known` and its own, for whoever keeps it: what a comparison needs of one is
    that it is there."""
    veil = known.also(_held((form,)))
    flags = form.flags and {name: _flag(veil, name, value) for name, value in form.flags.items()}
    sections = {
        name: veil.tree(getattr(form, name)) for name in ("env", "container", "mounts", "unit", "files", "says")
    }
    return replace(form, flags=flags, **sections)


def _flag(veil: Hiding, name: str, value: Any) -> Any:
    if isinstance(value, NotJson) and not is_secret(name):
        return replace(value, text=veil.text(value.text))  # still known as what it is
    return veil.tree(value, name)
