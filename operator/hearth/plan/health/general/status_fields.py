"""The role of each status field, by its name, and the fields that the kind's schema declares."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.model import limits, value_class
from hearth.model.child import Path
from hearth.plan.health.general import vocabulary
from hearth.plan.health.general.vocabulary import Meaning

FindDefinition: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Returns the target of a `$ref`."""

_WRITTEN: Final = vocabulary.load()["fields"]
MAIN: Final = tuple(_WRITTEN["main"])
WORDS: Final = tuple(_WRITTEN["words"])
SIDE_FLAGS: Final = frozenset(_WRITTEN["side_flags"])
FLAGS: Final = frozenset(_WRITTEN["flags"])
FLAGS_PROVING_NOTHING: Final = frozenset(_WRITTEN["milestones"])
ERRORS: Final = frozenset(_WRITTEN["errors"])
NO_ERRORS: Final = frozenset(_WRITTEN["no_errors"])
ENDS: Final = frozenset(_WRITTEN["ends"])
BEGINS: Final = frozenset(_WRITTEN["begins"])
ITEM_ERRORS: Final = tuple(_WRITTEN["item_errors"])
SUSPEND: Final = tuple(vocabulary.load()["suspend"])
REPORTING: Final = frozenset(vocabulary.load()["reporting"])
SIDE_SUFFIXES: Final = frozenset(word.lower() for word in _WRITTEN["side_suffixes"])
LOWER_SUFFIXES: Final = ("state", "status", "phase")
"""Other endings of names that mark a side field: `buildstatus`."""
UNREAD_PREFIXES: Final = frozenset(_WRITTEN["unread_prefixes"])
UNREAD_SUFFIXES: Final = frozenset(word.lower() for word in _WRITTEN["unread_suffixes"])
UNREAD: Final = frozenset(_WRITTEN["unread"])
FLAG_SUFFIX: Final = "flag"
"""The last word of `service_ready_flag`, which only means that it is a boolean."""
STATUS, CONDITIONS, OBSERVED = "status", "conditions", "observedGeneration"
ITEM_KEYS: Final = frozenset({CONDITIONS, "ready", *MAIN, *WORDS, *ITEM_ERRORS})
"""An item with any of these fields reports its own state."""
PAIRED_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    present: tuple(wanted) for present, wanted in vocabulary.load()["paired_counts"].items()
}
PAIRED_SUFFIXES: Final = tuple(vocabulary.load()["paired_suffixes"])
SIZES: Final = tuple(vocabulary.load()["sizes"])
COUNTED: Final = "ready"
ERROR_SUFFIXES: Final = frozenset(_WRITTEN["error_suffixes"])
NOTES: Final = tuple(_WRITTEN["notes"])
AMISS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(words.split()) for name, words in vocabulary.load()["amiss_counts"].items()
}


class Role(enum.Enum):
    """Role of a field of the status."""

    MAIN = "main"
    WORD = "word"
    """Like MAIN, but only if the vocabulary contains its text."""
    SIDE = "side"
    FLAG = "flag"
    ERROR = "error"
    RESTING = "resting"
    """A boolean. True means that the object is settled."""
    AMISS = "amiss"
    """The number of unhealthy parts, or the error of a part."""
    BUSY = "busy"
    """A boolean. True means progress or a problem: `isUpgrading`."""
    NOTE = "note"
    """A text that counts only if nothing else reports a state."""
    UNREAD = "unread"
    OTHER = "other"
    """Read only if it holds items that report their own state."""


def read_counts() -> dict[str, tuple[Path, ...]]:
    """Return the fields that a number in the status is compared with, by the number's field."""
    found: dict[str, tuple[Path, ...]] = {}
    for present, wanted in vocabulary.load()["counts"]:
        key = present.removeprefix("status.")
        found[key] = (*found.get(key, ()), tuple(wanted.split(".")))
    return found


COUNTS: Final = read_counts()
OMITTED_ZEROS: Final = tuple(vocabulary.load()["omitted_zeros"])
ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(UNREAD, Role.UNREAD),
    **dict.fromkeys(_WRITTEN["operations"], Role.OTHER),
    **dict.fromkeys(_WRITTEN["amiss"], Role.AMISS),
    **dict.fromkeys(ERRORS, Role.ERROR),
    **dict.fromkeys(FLAGS, Role.FLAG),
    **dict.fromkeys(MAIN, Role.MAIN),
    **dict.fromkeys(WORDS, Role.WORD),
    **dict.fromkeys(SUSPEND, Role.RESTING),
    **dict.fromkeys(NOTES, Role.NOTE),
}


def find_role(name: str) -> Role:
    """Return the role of a field of the status. Only the first part of its name is read."""
    return _find_role(name[: limits.HEALTH_WORD_CHARACTERS])


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def _find_role(name: str) -> Role:
    known = ROLES.get(name)
    if known is not None:
        return known
    words = vocabulary.split(name)
    words = words[:-1] if words[-1:] == (FLAG_SUFFIX,) else words
    if not words or words[0] in UNREAD_PREFIXES or words[-1] in UNREAD_SUFFIXES:
        return Role.UNREAD
    if words[-1] in SIDE_SUFFIXES or words[-1] in SIDE_FLAGS or words[-1].endswith(LOWER_SUFFIXES):
        return Role.SIDE
    if words[-1] in ERROR_SUFFIXES:
        return Role.AMISS
    if (
        words[0] in AMISS["first"]
        and words[-1] not in AMISS["limits"]
        and (words[0] not in AMISS["past"] or words[-1] in AMISS["last"])
    ):
        return Role.AMISS
    return Role.BUSY if is_busy(name) else Role.OTHER


def is_word(name: str) -> bool:
    """Return whether a part's field contains a word, by its name: `backupStatus` does, `bound` does not."""
    return not SIDE_SUFFIXES.isdisjoint(vocabulary.split(name[: limits.HEALTH_WORD_CHARACTERS])[-1:])


def is_busy(name: str) -> bool:
    """Return whether a boolean means progress or failure, by its name."""
    meanings = vocabulary.find_meanings(name)
    meaning = meanings[-1] or next((each for each in meanings if each is not None), None)
    return meaning in (Meaning.FAILED, Meaning.WAITING)


def find_wanted_names(name: str) -> tuple[str, ...]:
    """Return the fields that the count `name` is compared with; none if it does not count ready parts."""
    # Long names would fill the cache of names.
    return _find_wanted_names(name) if len(name) <= limits.HEALTH_WORD_CHARACTERS else ()


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def _find_wanted_names(name: str) -> tuple[str, ...]:
    for prefix, wanted in PAIRED_COUNTS.items():
        rest = name[len(prefix) :]
        if name.startswith(prefix) and rest[:1] in ("", rest[:1].upper()):
            found = tuple(each + rest if each else rest[:1].lower() + rest[1:] for each in wanted if each or rest)
            return found + SIZES if name == COUNTED else found
    suffix = next((each for each in PAIRED_SUFFIXES if name.endswith(each) and name != each), "")
    return (name.removesuffix(suffix),) if suffix else ()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StatusShape:
    """The part of a kind's schema that describes the status."""

    declared: frozenset[str] | None = None
    """The declared fields that report a state; None: no schema is known."""
    ends: bool = False
    """Whether it declares a field that is set once work has ended."""
    paths: frozenset[Path]
    """The fields, in addition to the metadata, that the general rule reads of objects of this kind."""
    parts: frozenset[str] = frozenset()
    """The declared fields whose items report their own state."""
    omitted_zeros: tuple[str, ...] = ()
    """The declared counts that are absent when they are zero."""


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
    # The schema of a built-in kind references its status. Its controller may omit any field, so an absent field means
    # nothing.
    declared = find_reporting(status, reads) if written is status else frozenset()
    ends = not ENDS.isdisjoint(find_properties(status))
    zeros = tuple(name for name in OMITTED_ZEROS if name in find_properties(status))
    parts = frozenset(
        name
        for name, each in find_properties(status).items()
        if find_role(name) is not Role.UNREAD and has_items(resolve(each, find_definition), find_definition)
    )
    return StatusShape(declared=declared, ends=ends, paths=frozenset(reads), parts=parts, omitted_zeros=zeros)


def find_reporting(status: Mapping[str, Any], reads: Collection[Path]) -> frozenset[str]:
    """Return the declared fields that objects use to report.

    reads: the fields that are read. The caches drop all others, so these never appear to be set.
    """
    declared = frozenset(find_properties(status)) & REPORTING
    return declared if (STATUS,) in reads else frozenset(name for name in declared if (STATUS, name) in reads)


def resolve(schema: Any, find_definition: FindDefinition) -> Mapping[str, Any]:
    """Return the schema that a reference points to; a schema without a reference is returned unchanged."""
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
    properties = find_properties(status)
    for name, schema in properties.items():
        if name in (CONDITIONS, OBSERVED) or name in ENDS or name in BEGINS or name in COUNTS:
            yield STATUS, name
            continue
        role = find_role(name)
        if role not in (Role.UNREAD, Role.OTHER, Role.BUSY) or (
            role is not Role.UNREAD and is_flag_or_items(role, resolve(schema, find_definition), find_definition)
        ):
            yield STATUS, name
    for wanted in {path for each in COUNTS.values() for path in each if path[0] == STATUS}:
        if wanted[1] in properties:
            yield wanted
    for name in properties:
        pairs = [wanted for wanted in find_wanted_names(name) if wanted in properties]
        if pairs:
            yield from ((STATUS, each) for each in (name, *pairs))


def is_flag_or_items(role: Role, schema: Mapping[str, Any], find_definition: FindDefinition) -> bool:
    """Return whether a field without a known name is read: a boolean that may report a failure, or items."""
    is_flag = role is Role.BUSY and schema.get("type", "boolean") == "boolean"
    return is_flag or has_items(schema, find_definition)


def has_items(schema: Mapping[str, Any], find_definition: FindDefinition) -> bool:
    """Return whether a field holds items that report their own state, one or two levels down."""
    inner = resolve(schema.get("items"), find_definition)
    values = resolve(schema.get("additionalProperties"), find_definition)
    candidates = [schema, inner, values]
    below = [resolve(each, find_definition) for each in find_properties(schema).values()]
    candidates += [*below, *(resolve(each.get("items"), find_definition) for each in below)]
    return any(
        bool(each.get("x-kubernetes-preserve-unknown-fields")) or reports(find_properties(each)) for each in candidates
    )


def reports(properties: Mapping[str, Any]) -> bool:
    """Return whether an item with these fields reports its own state."""
    is_counted = any(
        name.startswith(COUNTED) or not properties.keys().isdisjoint(find_wanted_names(name)) for name in properties
    )
    is_part = any(find_role(name) in (Role.SIDE, Role.FLAG) for name in properties)
    return is_counted or is_part or not ITEM_KEYS.isdisjoint(properties)
