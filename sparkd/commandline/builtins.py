"""What a shell does by itself -> the same to the variables of a followed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sparkd.commandline.following import Following
from sparkd.commandline.scope import number


def _export(shell: Following, words: Sequence[str]) -> None:
    """`export X`, `export X=…`, `declare -x X=…`; `local` and plain `declare` do not export."""
    exports = words[0] == "export" or any(word.startswith("-") and "x" in word for word in words[1:])
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if word.startswith("-") or not name.isidentifier():
            continue
        if equals:
            shell.scope.vars[name] = value
        if exports:
            shell.scope.exported.add(name)


def _unset(shell: Following, words: Sequence[str]) -> None:
    for name in words[1:]:
        shell.scope.vars.pop(name, None)
        shell.scope.exported.discard(name)


def _set(shell: Following, words: Sequence[str]) -> None:
    """`set -a`, `set -o allexport`, and `set -- …`, which gives the script other words."""
    if "--" in words:
        at = list(words).index("--")
        words, shell.scope.positional = words[:at], list(words[at + 1 :])
    for option in words[1:]:
        if option[:1] in "-+" and "a" in option[1:] and not option[1:].startswith("o"):
            shell.scope.export_all = option[0] == "-"
    if "allexport" in words:
        shell.scope.export_all = words[words.index("allexport") - 1].startswith("-")


def _source(shell: Following, words: Sequence[str]) -> None:
    found = shell.world.find(words[1]) if len(words) > 1 else None
    if found:
        shell.source(found)
    elif len(words) > 1 and not words[1].endswith("/activate"):
        shell.world.gap(shell.where, "", f"{words[1]} is not at hand; put it beside this file to have it read")


def _eval(shell: Following, words: Sequence[str]) -> None:
    if any("$(" in word for word in words):
        shell.world.gap(shell.where, "", "what `eval` gets is known only where it runs")
    shell.inner(shell.scope).run(" ".join(words[1:]), shell.line)


def _shift(shell: Following, words: Sequence[str]) -> None:
    del shell.scope.positional[: number(words[1], len(shell.scope.positional)) if len(words) > 1 else 1]


BUILTINS: Mapping[str, Callable[[Following, Sequence[str]], None]] = {
    "export": _export,
    "declare": _export,
    "typeset": _export,
    "local": _export,
    "readonly": _export,
    "unset": _unset,
    "set": _set,
    "source": _source,
    ".": _source,
    "eval": _eval,
    "shift": _shift,
}
