"""One change on one rank -> how bad it is, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd.drift import fixes
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import Gap, RankForm
from sparkd.drift.severities import SAME_AS_ABSENT, lost_json, rule_for
from sparkd.drift.values import NotJson, number, same
from sparkd.engines import like
from sparkd.engines.flags import Flag, FlagTable
from sparkd.model.words import short


def judge(
    kind: str, name: str, known: Any, live: Any, form: RankForm, table: FlagTable, gaps: tuple[Gap, ...] = ()
) -> Difference:
    """Severity, why and fix of one change on one rank."""
    severity, why = _judged(kind, name, known, live, form, table, gaps)
    fix = None if severity is Severity.BENIGN else fixes.fix(kind, name, known, live)
    return Difference(severity=severity, kind=kind, name=name, known=_shown(known), live=_shown(live), why=why, fix=fix)


def _judged(
    kind: str, name: str, known: Any, live: Any, form: RankForm, table: FlagTable, gaps: tuple[Gap, ...]
) -> tuple[Severity, str | None]:
    if isinstance(live, NotJson):
        return lost_json(form.engine, name, live)
    for gap in gaps:
        if any(gap.text in str(value) for value in (known, live) if value is not None):
            return Severity.UNKNOWN, f"{gap.where}: {gap.why}"
    if benign := _no_effect(kind, name, known, live, form, table):
        return Severity.BENIGN, benign
    flag = table.flags.get(name.lstrip("-")) if kind == "flag" else None
    if flag is not None and flag.choices and live is not None and live not in flag.choices:
        choices = ", ".join(map(str, flag.choices[:12]))
        return (
            Severity.BREAKS,
            f"{table.engine} {table.version} takes only {choices} here and exits with 2 (evidence 16)",
        )
    rule = rule_for(form.engine, kind, name, _effective(known, flag), _effective(live, flag))
    if rule is not None:
        return rule.severity, rule.sentence + _without(flag, known, live, table)
    if kind == "flag" and flag is None and table.flags and live is not None and "." not in name and known is None:
        return (
            Severity.UNKNOWN,
            f"{table.engine} {table.version} has no such flag and would exit with 2 (evidence 16); another build may have it",
        )
    return Severity.UNKNOWN, None


def _effective(value: Any, flag: Flag | None) -> Any:
    """A number that is left out is the parser's own."""
    is_number = flag is not None and isinstance(flag.default, int | float) and not isinstance(flag.default, bool)
    return flag.default if flag is not None and value is None and is_number else value


def _without(flag: Flag | None, known: Any, live: Any, table: FlagTable) -> str:
    if (
        flag is None
        or None not in (known, live)
        or flag.default in (None, False, "")
        or isinstance(flag.default, Mapping)
    ):
        return ""
    return f"; without it {table.engine} {table.version} takes {short(flag.default)}"


def _no_effect(kind: str, name: str, known: Any, live: Any, form: RankForm, table: FlagTable) -> str | None:
    """Why the change is none in effect; None where it may be one."""
    if kind == "env":
        return _env_default(name, known, live, table)
    if kind != "flag":
        return None
    said, bare = (live if known is None else known), name.lstrip("-")
    flag = table.flags.get(bare)
    own = like(form.engine).rank_flags
    if form.flags and form.flags.get(own.worker or "") is True and own.api_only(bare, flag.group if flag else None):
        return f"a {own.worker} rank serves no API"
    if (known is None or live is None) and (_default_at(table, bare, said) or said in SAME_AS_ABSENT.get(bare, ())):
        return f"the default of {table.engine} {table.version}"
    return None


def _default_at(table: FlagTable, name: str, said: Any) -> bool:
    """Is `said` what the parser's table has for a flag, or for one key of its JSON (`compilation-config.mode`)?"""
    bare, *keys = name.split(".")
    flag = table.flags.get(bare)
    if flag is None:
        return False
    default = flag.default
    for key in keys:
        if not isinstance(default, Mapping) or key not in default:
            return False
        default = default[key]
    if isinstance(default, Mapping) and isinstance(said, Mapping):
        return all(_default_at(table, f"{name}.{key}", value) for key, value in said.items())
    return same(default, said)


def _env_default(name: str, known: Any, live: Any, table: FlagTable) -> str | None:
    if name not in table.env:
        return None
    default = table.env[name]
    if all(value is None or _means(value, default) for value in (known, live)):
        return f"what {table.engine} {table.version} takes where nothing is set"
    return None


def _means(text: str, default: Any) -> bool:
    if isinstance(default, bool):
        return text.strip().lower() in (("1", "true") if default else ("0", "false", ""))
    if isinstance(default, int | float):
        return same(number(text.strip()), default)
    return text == (default or "")


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, NotJson) else value
