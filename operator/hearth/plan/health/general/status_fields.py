"""Roles of the fields of a status by their names, and which of them a kind's schema declares.

Knows names and schemas. Must not know values of objects.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hearth.model import limits
from hearth.model.child import Path
from hearth.plan.health.general import vocabulary

FindDefinition: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Returns the target of a `$ref`."""

_WRITTEN: Final = vocabulary.load()["fields"]
MAIN: Final = tuple(_WRITTEN["main"])
WORDS: Final = tuple(_WRITTEN["words"])
SIDE_FLAGS: Final = frozenset(_WRITTEN["side_flags"])
FLAGS: Final = frozenset(_WRITTEN["flags"])
FLAGS_PROVING_NOTHING: Final = frozenset(_WRITTEN["milestones"])
ERRORS: Final = frozenset(_WRITTEN["errors"])
ENDS: Final = frozenset(_WRITTEN["ends"])
SUSPEND: Final = tuple(vocabulary.load()["suspend"])
REPORTING: Final = frozenset(vocabulary.load()["reporting"])
SIDE_SUFFIXES: Final = frozenset(word.lower() for word in _WRITTEN["side_suffixes"])
UNREAD_PREFIXES: Final = frozenset(_WRITTEN["unread_prefixes"])
UNREAD_SUFFIXES: Final = frozenset(word.lower() for word in _WRITTEN["unread_suffixes"])
UNREAD: Final = frozenset(_WRITTEN["unread"])
STATUS, CONDITIONS, OBSERVED = "status", "conditions", "observedGeneration"
ITEM_KEYS: Final = frozenset({CONDITIONS, "ready", *MAIN, *WORDS})
"""Fields of an item, one of which makes the item report."""


ITEM_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(vocabulary.load()["item_counts"][name]) for name in ("present", "wanted")
}


class Role(enum.Enum):
    """Role of a field of the status."""

    MAIN = "main"
    WORD = "word"
    """Like MAIN where the vocabulary knows its text."""
    SIDE = "side"
    FLAG = "flag"
    ERROR = "error"
    UNREAD = "unread"
    OTHER = "other"
    """Read only if it holds items that report."""


def read_counts() -> dict[str, tuple[Path, ...]]:
    """Return by field of the status the fields with which its number is compared."""
    found: dict[str, tuple[Path, ...]] = {}
    for present, wanted in vocabulary.load()["counts"]:
        key = present.removeprefix("status.")
        found[key] = (*found.get(key, ()), tuple(wanted.split(".")))
    return found


COUNTS: Final = read_counts()
ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(UNREAD, Role.UNREAD),
    **dict.fromkeys(ERRORS, Role.ERROR),
    **dict.fromkeys(FLAGS, Role.FLAG),
    **dict.fromkeys(MAIN, Role.MAIN),
    **dict.fromkeys(WORDS, Role.WORD),
}


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def find_role(name: str) -> Role:
    """Return the role of a field of the status."""
    known = ROLES.get(name)
    if known is not None:
        return known
    words = vocabulary.split(name[: limits.HEALTH_WORD_CHARACTERS])
    if not words or words[0] in UNREAD_PREFIXES or words[-1] in UNREAD_SUFFIXES:
        return Role.UNREAD
    return Role.SIDE if words[-1] in SIDE_SUFFIXES or words[-1] in SIDE_FLAGS else Role.OTHER


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def find_wanted_names(name: str) -> tuple[str, ...]:
    """Return the fields of an item with which its count `name` is compared; none if it counts nothing that is ready."""
    for prefix in ITEM_COUNTS["present"]:
        rest = name[len(prefix) :]
        if name.startswith(prefix) and rest[:1] in ("", rest[:1].upper()):
            return tuple(wanted + rest for wanted in ITEM_COUNTS["wanted"])
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusShape:
    """What a kind's schema declares of the status."""

    declared: frozenset[str] | None = None
    """The declared reporting fields. None: no schema is known."""
    paths: frozenset[Path]
    """The fields that the general rule reads of objects of this kind, besides the metadata."""

    @property
    def reports(self) -> bool:
        """Return whether an object of this kind that says nothing was not observed yet."""
        return bool(self.declared)


SUSPEND_PATHS: Final[frozenset[Path]] = frozenset(("spec", name) for name in SUSPEND)
WANTED_PATHS: Final[frozenset[Path]] = frozenset(
    wanted for each in COUNTS.values() for wanted in each if wanted[0] != STATUS
)
UNKNOWN: Final = StatusShape(paths=frozenset({(STATUS,)}) | SUSPEND_PATHS | WANTED_PATHS)
"""The shape of a kind without a schema."""
REPORTING_KIND: Final = StatusShape(declared=frozenset({CONDITIONS}), paths=UNKNOWN.paths)
"""The shape of a kind without a schema whose controller is known to report."""


def find_shape(schema: Mapping[str, Any] | None, find_definition: FindDefinition) -> StatusShape:
    """Return the shape of a kind by the schema of its whole object."""
    properties = schema.get("properties") if schema is not None else None
    if not isinstance(properties, Mapping):
        return UNKNOWN
    written = properties.get(STATUS)
    status = resolve(written, find_definition)
    spec = resolve(properties.get("spec"), find_definition)
    reads = set(find_status_paths(status, find_definition))
    known = frozenset(find_properties(spec))
    is_open_spec = is_open(spec)
    for path in SUSPEND_PATHS | WANTED_PATHS:
        if is_open_spec or path[1] in known:
            reads.add(path)
    # Built-in types refer to their status. Their controllers may leave any field out, and silence says nothing.
    declared = frozenset(find_properties(status)) & REPORTING if written is status else frozenset()
    return StatusShape(declared=declared, paths=frozenset(reads))


def resolve(schema: Any, find_definition: FindDefinition) -> Mapping[str, Any]:
    """Return the schema that a reference stands for, or the schema itself if it is none."""
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref")
    for part in schema.get("allOf") or ():
        if reference is None and isinstance(part, Mapping):
            reference = part.get("$ref")
    return (find_definition(reference) or {}) if isinstance(reference, str) else schema


def find_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the declared fields of a map."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def is_open(schema: Mapping[str, Any]) -> bool:
    """Return whether a map may have fields that its schema does not declare."""
    return bool(schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties"))


def find_status_paths(status: Mapping[str, Any], find_definition: FindDefinition) -> Iterator[Path]:
    """Find the fields of the status that the general rule reads."""
    if is_open(status):
        yield (STATUS,)
        return
    for name, schema in find_properties(status).items():
        if name in (CONDITIONS, OBSERVED) or name in ENDS or name in COUNTS:
            yield STATUS, name
            continue
        role = find_role(name)
        is_read = role not in (Role.UNREAD, Role.OTHER) or (
            role is Role.OTHER and has_items(resolve(schema, find_definition), find_definition)
        )
        if is_read:
            yield STATUS, name
    for wanted in {path for each in COUNTS.values() for path in each if path[0] == STATUS}:
        if wanted[1] in find_properties(status):
            yield wanted


def has_items(schema: Mapping[str, Any], find_definition: FindDefinition) -> bool:
    """Return whether a field holds items that report, one or two levels down."""
    inner = resolve(schema.get("items"), find_definition)
    values = resolve(schema.get("additionalProperties"), find_definition)
    candidates = [schema, inner, values]
    candidates += [resolve(each, find_definition) for each in find_properties(schema).values()]
    return any(
        bool(each.get("x-kubernetes-preserve-unknown-fields")) or reports(find_properties(each)) for each in candidates
    )


def reports(properties: Mapping[str, Any]) -> bool:
    """Return whether an item with these fields reports for itself."""
    is_counted = any(not properties.keys().isdisjoint(find_wanted_names(name)) for name in properties)
    return is_counted or not ITEM_KEYS.isdisjoint(properties)
