"""Chooses the names of the resources in the template: readable, unique and deterministic."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.model import object_fields
from hearth.template.parser import template_parser

LENGTH = 40
UNNAMED = "object"
"""Name for an object without an ASCII letter in its name and kind."""
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "Pod")
"""Kinds, ordered by their claim to a shared name: `frontend` most likely means a workload."""
WORD = re.compile(r"[A-Za-z0-9]+")
RESERVED = template_parser.RESERVED_RESOURCE_NAMES | {template_parser.MEMBER_KEY}


def name_all(documents: Sequence[ManifestDocument]) -> list[str]:
    """Return a name for each document, in their order.

    This is the name of the object, followed by the kind if several kinds share the name, and then by the namespace or a
    number if that is not unique.
    """
    names = [camel(shorten(document)) or camel(document.kind) or UNNAMED for document in documents]
    names = [
        name if name not in RESERVED else with_kind(name, document)
        for name, document in zip(names, documents, strict=True)
    ]
    names = distinguish(names, documents)
    return number(names)


def shorten(document: ManifestDocument) -> str:
    """Return the object's name; for a CustomResourceDefinition, the part before the group.

    If the object has no name, return its `generateName` prefix.
    """
    is_definition = document.kind == "CustomResourceDefinition"
    stated = document.name or object_fields.text(document.metadata, "generateName")
    return stated.partition(".")[0] if is_definition else stated


def distinguish(names: Sequence[str], documents: Sequence[ManifestDocument]) -> list[str]:
    """Return the names with kinds appended, then namespaces, as long as several documents share one."""
    result = list(names)
    for shared in find_shared(result):
        kinds = [documents[index].kind for index in shared]
        kept = find_owner(kinds)
        for position, index in enumerate(shared):
            if position != kept and len(set(kinds)) > 1:
                result[index] = with_kind(result[index], documents[index])
    for shared in find_shared(result):
        for index in shared:
            result[index] = fit(result[index], camel(documents[index].namespace, first_upper=True))
    return result


def find_shared(names: Sequence[str]) -> list[list[int]]:
    """Return the positions of each name that occurs more than once."""
    positions: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        positions[name].append(index)
    return [indexes for indexes in positions.values() if len(indexes) > 1]


def find_owner(kinds: Sequence[str]) -> int | None:
    """Return which of them keeps the bare name: the first, or the only one of the most important kind of workload."""
    owner = next((kind for kind in WORKLOADS if kind in kinds), kinds[0])
    return kinds.index(owner) if kinds.count(owner) == 1 else None


def number(names: Sequence[str]) -> list[str]:
    """Return the names with 2, 3 … appended to repeated ones."""
    taken = set(names)
    seen: set[str] = set()
    result = []
    for name in names:
        chosen = name if name not in seen else find_free(name, taken)
        taken.add(chosen)
        seen.add(chosen)
        result.append(chosen)
    return result


def find_free(name: str, taken: Collection[str]) -> str:
    """Return `name`, with the smallest number that makes it unique if it is taken."""
    if name not in taken:
        return name
    candidates = (fit(name, str(count)) for count in itertools.count(2))
    return next(candidate for candidate in candidates if candidate not in taken)


def with_kind(name: str, document: ManifestDocument) -> str:
    """Join the parts in camel case: `redisMasterService`."""
    return fit(name, camel(document.kind, first_upper=True) or UNNAMED.title())


def fit(name: str, ending: str) -> str:
    """Return `name` and `ending` in at most 40 characters; truncates `name`."""
    ending = ending[: LENGTH - 1]
    return f"{name[: LENGTH - len(ending)]}{ending}"


def camel(text: str, *, first_upper: bool = False) -> str:
    """Convert `redis-master` to `redisMaster`; other characters separate words and are dropped."""
    words = [word[:1].upper() + word[1:] for word in WORD.findall(text)]
    if words and not first_upper:
        # A name must not begin with a digit.
        words[0] = f"n{words[0]}" if words[0][0].isdigit() else lower_first(words[0])
    return "".join(words)[:LENGTH]


def lower_first(text: str) -> str:
    """Convert `ConfigMap` to `configMap`, and `APIService` to `apiService`."""
    capitals = len(text) - len(text.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    small = capitals if capitals == len(text) else max(1, capitals - 1)
    return text[:small].lower() + text[small:]
