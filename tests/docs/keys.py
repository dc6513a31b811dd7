"""The schemas -> docs/configuration.md: every key of both files with its type, default, unit and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparkd.settings.schema import UNIT, cluster_schema, deployment_schema

Json = dict[str, Any]

HEAD = """\
# Configuration

Every key of the two kinds of file. Written by `make docs` from what reads them; `sparkd config schema` has the same for editors.

`sparkd config check` names every problem of every file with its line and what to write instead. YAML is 1.2: `on` is a word,
`010` is ten. Keys that are not listed here, and keys that come twice, are refused; so are `~` and relative paths. Durations are
seconds. A key without a default must be there.

The environment overrides single values of sparkd.yaml: `SPARKD_HTTP__LISTEN` is `listen` under `http`. Editors with a YAML
language server complete keys and show their meaning where the first line of a file names its schema, as in `config/`:

    # yaml-language-server: $schema=schema/sparkd.json

The shipped files name the copies in `config/schema/`; for files elsewhere make your own, or name them by an absolute path:

    sparkd config schema > /etc/sparkd/schema/sparkd.json
    sparkd config schema --deployment > /etc/sparkd/schema/deployment.json
"""


def configuration() -> str:
    parts = [HEAD]
    for schema, name in ((cluster_schema(), "sparkd.yaml"), (deployment_schema(), "A deployment file")):
        parts += [f"## {name}\n", *_section(schema, schema)]
    return "\n".join(parts)


def _section(section: Json, whole: Json) -> Iterator[str]:
    """The keys as a table, then each section below it under a heading of its own."""
    yield "| key | type | default | unit | meaning |\n| --- | --- | --- | --- | --- |"
    yield "\n".join(
        _row(key, value, key in section.get("required", ()), whole) for key, value in section["properties"].items()
    )
    yield ""
    for key, value in section["properties"].items():
        inner = _inner(value, whole)
        if inner:
            title = next(iter(inner["properties"].values()))["title"].rpartition(".")[0]
            yield f"### {title}\n\n{inner['description']}\n" if inner["description"] else f"### {key}\n"
            yield from _section(inner, whole)


def _inner(value: Json, whole: Json) -> Json | None:
    """The section that a key holds, or each of its entries."""
    for one in (value, value.get("items", {}), value.get("additionalProperties", {}), *value.get("anyOf", ())):
        if isinstance(one, dict) and "$ref" in one:
            section: Json = whole["$defs"][one["$ref"].rpartition("/")[2]]
            return section
    return None


def _row(key: str, value: Json, needed: bool, whole: Json) -> str:
    default = "needed" if needed else _default(value)
    unit = value.get(UNIT) or value.get("items", {}).get(UNIT, "")
    return f"| `{key}` | {_type(value, whole)} | {default} | {unit} | {_meaning(value)} |"


def _default(value: Json) -> str:
    return f"`{json.dumps(value['default'], ensure_ascii=False)}`" if "default" in value else ""


def _type(value: Json, whole: Json) -> str:
    if "enum" in value:
        return ", ".join("null" if one is None else f"`{one}`" for one in value["enum"])
    if "$ref" in value or "anyOf" in value:
        return "section" + (" or null" if "anyOf" in value else "")
    kinds = value.get("type", "anything")
    return " or ".join(_WORDS.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))


_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list", "object": "mapping"}


def _meaning(value: Json) -> str:
    ends = ""
    if "minimum" in value and "maximum" in value:
        ends = f" From {value['minimum']} to {value['maximum']}."
    return str(value["description"]).replace("|", "\\|") + ends
