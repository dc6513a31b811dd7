"""One deployment file, with one of its profiles merged in -> Deployment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import NamedTuple

from sparkd.base.errors import Problem
from sparkd.engines import FIRST
from sparkd.engines.args import canonical
from sparkd.model.config import LAUNCH, Cluster, Deployment, Policy
from sparkd.settings.deployment_rules import findings
from sparkd.settings.shape import Fault, place, refused, shape, suggestion
from sparkd.settings.tree import Item, describe, from_plain

FIXED = ("name", "engine", "runtime", "hardware", "nodes", "profile", "profiles")
"""What a profile cannot change: it is another way to run the same deployment."""


class Loaded(NamedTuple):
    """A deployment with problems is partial: its name and nodes are good for messages, nothing in it is for use."""

    deployment: Deployment | None
    problems: tuple[Problem, ...]
    tree: Item


def deployment_of(tree: Item, file: str, cluster: Cluster | None, profile: str | None = None) -> Loaded:
    """The deployment under `profile` (given, else the file's own choice); every other profile is checked too."""
    tree, found = _prepared(tree)
    problems = [place(finding, tree, file) for finding in found]
    profiles = tree.mapping("profiles")
    chosen = tree.at("profile")
    wanted = profile if profile is not None else (chosen.value if chosen is not None else None)
    if isinstance(wanted, str) and wanted not in profiles:
        problems.append(place(_no_profile(wanted, tuple(profiles)), tree, file))
        wanted = None
    result = _one(tree, file, cluster, wanted if isinstance(wanted, str) else None)
    problems += result.problems
    for other in profiles:
        if other != wanted:
            problems += _one(tree, file, cluster, other).problems
    return result._replace(problems=tuple(dict.fromkeys(problems)))


def _no_profile(name: str, known: tuple[str, ...]) -> Fault:
    fix = suggestion(name, known) if known else "write it under `profiles:`, or leave `profile` out"
    return Fault(("profile",), f"there is no profile `{name}`", fix)


def _one(tree: Item, file: str, cluster: Cluster | None, profile: str | None) -> Loaded:
    if profile is not None:
        tree = merge_profile(tree, profile).with_child("profile", from_plain(profile, ("profile",)))
    stand_ins = {"name": file, "engine": FIRST, "nodes": []}
    whole = _with_policy(tree, cluster)
    shaped = shape(Deployment, whole, file, stand_ins)
    if shaped.value is None:
        return Loaded(None, shaped.problems, tree)
    deployment = replace(shaped.value, file=file, digest=digest(shaped.value))
    absent = {key for key in stand_ins if shaped.tree.child(key) is None}
    kept = (
        found
        for found in findings(deployment, cluster)
        if not (found.path[0] in absent or _inherited(found, shaped.tree) or refused(found, whole, shaped.tree))
    )
    return Loaded(deployment, (*shaped.problems, *(place(found, shaped.tree, file) for found in kept)), tree)


def _inherited(found: Fault, tree: Item) -> bool:
    """A number of sparkd.yaml's policy: reported there."""
    item, _ = tree.nearest(found.path)
    return found.path[0] == "policy" and item.line == 0


def _with_policy(tree: Item, cluster: Cluster | None) -> Item:
    """The cluster's policy with the file's own numbers over it."""
    own = tree.at("policy")
    if own is not None and not isinstance(own.value, dict):
        return tree
    base = from_plain(asdict(cluster.policy if cluster is not None else Policy()), ("policy",))
    return tree.with_child("policy", base if own is None else _merged(base, own))


def merge_profile(tree: Item, profile: str) -> Item:
    """The tree with the profile's keys over it: mappings merge key by key, anything else is replaced.

    So is the value of an argument, as a whole: of `compilation-config: {…}` the engine gets what the profile says.
    """
    for key, item in tree.mapping("profiles", profile).items():
        base = tree.child(key)
        if base is None:
            tree = tree.with_child(key, item)
        elif key == "args" and isinstance(base.value, dict) and isinstance(item.value, dict):
            tree = tree.with_child(key, replace(base, value={**base.value, **item.value}))
        else:
            tree = tree.with_child(key, _merged(base, item))
    return tree


def _merged(base: Item, over: Item) -> Item:
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    both = {key: _merged(base.value[key], item) if key in base.value else item for key, item in over.value.items()}
    return replace(over, value={**base.value, **both})


def digest(deployment: Deployment) -> str:
    """sha256 (hex) of what shapes the ranks: two files with the same digest run the same, whatever their policies."""
    whole = {key: value for key, value in asdict(deployment).items() if key in LAUNCH}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------------------------------- before the values are typed


def _prepared(tree: Item) -> tuple[Item, list[Fault]]:
    """Spellings that people use -> those of the schema: `a_b` arguments, numbers as written, secrets as files."""
    found: list[Fault] = []
    tree = _section(tree, found)
    profiles = tree.at("profiles")
    for name, profile in tree.mapping("profiles").items():
        if profiles is None or not isinstance(profile.value, dict):
            continue
        for key in FIXED:
            if profile.child(key):
                found.append(Fault(("profiles", name, key), f"a profile cannot change `{key}`", "make it another file"))
                profile = profile.without((key,))
        profiles = profiles.with_child(name, _section(profile, found))
    return (tree if profiles is None else tree.with_child("profiles", profiles)), found


def _section(section: Item, found: list[Fault]) -> Item:
    args, secrets = section.at("args"), section.at("secrets")
    if args is not None and isinstance(args.value, dict):
        section = section.with_child("args", replace(args, value=_arguments(args.value, found)))
    if secrets is not None and isinstance(secrets.value, dict):
        files = {name: file for name, item in secrets.value.items() for file in _secret_file(item, found)}
        section = section.with_child("secrets", replace(secrets, value=files))
    return section


def _arguments(args: Mapping[str, Item], found: list[Fault]) -> dict[str, Item]:
    """Arguments by their canonical names, numbers as they are spelled: `0.90` reaches the engine as `0.90`."""
    named: dict[str, Item] = {}
    for written, item in args.items():
        name = canonical(written.lstrip("-"))
        if written.startswith("-"):
            found.append(Fault(item.path, f"`{written}` has leading dashes", f"write `{written.lstrip('-')}: …`"))
        if name in named:
            first = f"`{written}` is `{named[name].path[-1]}` of line {named[name].line} again"
            found.append(Fault(item.path, first, "keep one of the two: `a_b` equals `a-b`"))
        else:
            named[name] = _spelled(item)
    return named


def _spelled(item: Item) -> Item:
    if isinstance(item.value, tuple):
        return replace(item, value=tuple(_spelled(inner) for inner in item.value))
    is_number = isinstance(item.value, int | float) and not isinstance(item.value, bool)
    return replace(item, value=item.spelling) if is_number and str(item.value) != item.spelling else item


def _secret_file(item: Item, found: list[Fault]) -> Iterator[Item]:
    """The file of `{file: PATH}`, the only form of a secret."""
    file = item.child("file")
    if file is None or len(item.mapping()) != 1:
        what = describe(item) if isinstance(item.value, dict | tuple | None) else "a value"
        fix = "write {file: /etc/sparkd/NAME}: secrets are references, read when a rank is created"
        found.append(Fault(item.path, f"expected the file that holds the secret, found {what}", fix))
    else:
        yield file
