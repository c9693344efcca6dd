"""What a health rule can say, and how its fields are read whatever their shape. Knows no kind."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hearth.model.child import Path

Fields = Mapping[str, Any]


class HealthState(enum.Enum):
    """How an object does."""

    PROGRESSING = "progressing"
    READY = "ready"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Its controller, or whoever runs it, has lost sight of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedStop:
    """Somebody within a Stack who waits at a breakpoint."""

    resource: str
    """By its name, or its path from that Stack on."""
    hook: str
    kind: str = ""
    """Of its object; "" where that is not known yet, as its name is then."""
    name: str = ""
    stack: str
    """The name of the Stack that it is a resource of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """How an object does, and why."""

    state: HealthState
    reason: str
    """One CamelCase word, the object's own where it has one."""
    message: str
    """In the object's own words where it has any; "" where the reason says it all."""
    terminal: bool = False
    """Whether nothing but another object can help. Never true unless failed."""
    stops: tuple[NestedStop, ...] = ()
    """Who within it waits for a person, where nothing of it can move before. Only while progressing."""


class HealthRule(Protocol):
    """Judges the objects of one kind."""

    def __call__(self, fields: Fields, /) -> HealthResult:
        """The verdict; must take any shape, since half-written objects are seen too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRuleEntry:
    """A row of the health table."""

    rule: HealthRule
    paths: frozenset[Path]
    """All that the rule reads, besides apiVersion, kind and metadata."""
    is_slow: bool = False
    """Whether a verdict takes so long that it is to be remembered."""


def entry(rule: HealthRule, *paths: str) -> HealthRuleEntry:
    """A row whose paths are written with dots."""
    return HealthRuleEntry(rule=rule, paths=frozenset(tuple(path.split(".")) for path in paths))


def ready(reason: str = "Ready", message: str = "") -> HealthResult:
    """It is as it was asked to be."""
    return HealthResult(state=HealthState.READY, reason=reason, message=message)


def progressing(reason: str, message: str) -> HealthResult:
    """It is on its way."""
    return HealthResult(state=HealthState.PROGRESSING, reason=reason, message=message)


def failed(reason: str, message: str, *, terminal: bool = False) -> HealthResult:
    """It says so itself; unless terminal its own controller may still overcome it."""
    return HealthResult(state=HealthState.FAILED, reason=reason, message=message, terminal=terminal)


def unknown(reason: str, message: str) -> HealthResult:
    """Nobody can tell."""
    return HealthResult(state=HealthState.UNKNOWN, reason=reason, message=message)


def first(verdicts: Iterable[HealthResult | None]) -> HealthResult | None:
    """The first that is one."""
    return next((verdict for verdict in verdicts if verdict is not None), None)


def read(fields: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    for key in path.split("."):
        if not isinstance(fields, Mapping):
            return None
        fields = fields.get(key)
    return fields


def read_text(fields: Any, path: str) -> str:
    """The text at `path`, "" for anything else."""
    value = read(fields, path)
    return value if isinstance(value, str) else ""


def read_count(fields: Any, path: str, *, default: int = 0) -> int:
    """The whole number at `path`, `default` for anything else."""
    value = read(fields, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_items(fields: Any, path: str) -> list[Fields]:
    """The maps in the list at `path`."""
    items = read(fields, path)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@dataclass(frozen=True, slots=True)
class ObjectCondition:
    """One of an object's conditions."""

    status: str
    reason: str
    message: str
    is_outdated: bool = False
    """Whether it says itself that it speaks of an older generation."""

    @property
    def is_true(self) -> bool:
        """Whether it holds."""
        return self.status == "True"

    @property
    def is_false(self) -> bool:
        """Whether it is known not to hold."""
        return self.status == "False"


def read_conditions(fields: Fields) -> dict[str, ObjectCondition]:
    """By type the conditions of an object; of two with the same type the last."""
    return {
        read_text(item, "type"): ObjectCondition(
            read_text(item, "status"),
            read_text(item, "reason"),
            read_text(item, "message"),
            is_outdated(item, fields),
        )
        for item in read_items(fields, "status.conditions")
    }


def find_unobserved(fields: Fields, *, is_always_told: bool = False) -> HealthResult | None:
    """Progressing while the object's controller has not seen its latest generation.

    is_always_told: whether its controller always says what it has seen, so that silence means that it saw nothing yet.
    """
    generation = read_count(fields, "metadata.generation")
    observed = read_count(fields, "status.observedGeneration", default=0 if is_always_told else generation)
    if observed >= generation:
        return None
    if not observed:
        return progressing("NotObserved", "its controller has not looked at it")
    return progressing("NotObserved", f"its controller has seen generation {observed} of {generation}")


def is_outdated(condition: Fields, fields: Fields) -> bool:
    """Whether a condition says itself that it speaks of an older generation of the object."""
    generation = read_count(fields, "metadata.generation")
    return read_count(condition, "observedGeneration", default=generation) < generation


def find_missing(label: str, found: int, wanted: int) -> HealthResult | None:
    """Progressing while fewer pods than wanted are so."""
    reason = f"LessThan{label.title()}"
    return progressing(reason, f"{found} of {wanted} pods are {label}") if found < wanted else None
