"""Results of health rules, and helpers that read the fields of an object of any shape."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, Protocol

from hearth.model import limits, value_class
from hearth.model.child import Path

Fields = Mapping[str, Any]


class HealthState(enum.Enum):
    """Health of an object."""

    PROGRESSING = "progressing"
    READY = "ready"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Its controller or node has lost contact with it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NestedStop:
    """Resource within a Stack that waits at a breakpoint."""

    resource: str
    """The resource's name, or its path from that Stack."""
    hook: str
    kind: str = ""
    """The kind of its object, or "" if neither kind nor name is known yet."""
    name: str = ""
    stack: str
    """The name of the Stack that the resource belongs to."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """Health of an object and its cause."""

    state: HealthState
    reason: str
    """One CamelCase word, the object's own if it has one."""
    message: str
    """The object's own message if it has one, or "" if the reason suffices."""
    terminal: bool = False
    """Whether only another object can help. True only if the object failed."""
    is_silent: bool = False
    """Whether the object has no status although its kind declares one. True only while progressing."""
    is_pending: bool = False
    """Whether another process is still assessing the object. Until then, this is an earlier result or a placeholder."""
    stops: tuple[NestedStop, ...] = ()
    """Resources within the object that wait for a user, if nothing in it can proceed without the user. Set only while
    progressing."""


class HealthRule(Protocol):
    """Health rule of one kind."""

    def __call__(self, fields: Fields, /) -> HealthResult:
        """Assess the object. Accepts any shape, since incomplete objects occur too."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HealthRuleEntry:
    """Row of the health table."""

    rule: HealthRule
    paths: frozenset[Path]
    """All fields that the rule reads, in addition to apiVersion, kind and metadata."""


def entry(rule: HealthRule, *paths: str) -> HealthRuleEntry:
    """Create a row from dotted paths."""
    return HealthRuleEntry(rule=rule, paths=frozenset(tuple(path.split(".")) for path in paths))


def ready(reason: str = "Ready", message: str = "") -> HealthResult:
    """Return the result of an object in its desired state."""
    return HealthResult(state=HealthState.READY, reason=reason, message=message)


def progressing(reason: str, message: str) -> HealthResult:
    """Return the result of an object that is not ready yet."""
    return HealthResult(state=HealthState.PROGRESSING, reason=reason, message=message)


def failed(reason: str, message: str, *, terminal: bool = False) -> HealthResult:
    """Return the result of an object that reports a failure. Unless terminal, its controller may still recover."""
    return HealthResult(state=HealthState.FAILED, reason=reason, message=message, terminal=terminal)


def unknown(reason: str, message: str) -> HealthResult:
    """Return the result of an object whose health cannot be determined."""
    return HealthResult(state=HealthState.UNKNOWN, reason=reason, message=message)


def with_message(result: HealthResult) -> HealthResult:
    """Return the result with a default message if the object is not ready and reports no message."""
    if result.state is HealthState.READY or result.message.strip():
        return result
    return dataclasses.replace(result, message="its controller has not reported why")


def read(fields: Any, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(fields, Mapping):
            return None
        fields = fields.get(key)
    return fields


def read_text(fields: Any, path: str) -> str:
    """Return the text at `path`, or "" for anything else."""
    value = read(fields, path)
    return value if isinstance(value, str) else ""


def read_count(fields: Any, path: str, *, default: int = 0) -> int:
    """Return the whole number at `path`, or `default` for anything else."""
    value = read(fields, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_generation(fields: Any, path: str, *, default: int) -> int:
    """Return the generation at `path`, a number or a text with one, or `default` for anything else."""
    value = read(fields, path)
    if isinstance(value, str) and value.isdecimal() and len(value) <= limits.INTEGER_DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_items(fields: Any, path: str) -> list[Fields]:
    """Return the maps in the list at `path`."""
    items = read(fields, path)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@value_class.dataclass(frozen=True, slots=True)
class ObjectCondition:
    """Condition of an object."""

    status: str
    reason: str
    message: str
    is_outdated: bool = False
    """Whether the condition's own generation is older than the object's."""

    @property
    def is_true(self) -> bool:
        """Return whether the status is True."""
        return self.status == "True"

    @property
    def is_false(self) -> bool:
        """Return whether the status is False."""
        return self.status == "False"


def read_conditions(fields: Fields) -> dict[str, ObjectCondition]:
    """Return the conditions of an object by type. Of two with the same type, the last counts."""
    return {
        read_text(item, "type"): ObjectCondition(
            read_text(item, "status"), read_text(item, "reason"), read_text(item, "message"), is_outdated(item, fields)
        )
        for item in read_items(fields, "status.conditions")
    }


def find_unobserved(fields: Fields, *, is_always_reported: bool = False) -> HealthResult | None:
    """Return progressing while the object's controller has not observed its latest generation.

    is_always_reported: whether the controller always reports its observed generation, so that a missing one means none.
    """
    generation = read_count(fields, "metadata.generation")
    observed = read_generation(fields, "status.observedGeneration", default=0 if is_always_reported else generation)
    if observed >= generation:
        return None
    if not observed:
        return progressing("NotObserved", "its controller has not processed it yet")
    return progressing("NotObserved", f"its controller has observed generation {observed} of {generation}")


def assess_observed(fields: Fields, rule: HealthRule) -> HealthResult:
    """Return the result of `rule`, or progressing while the controller has not observed the latest generation.

    A `Ready` condition for the latest generation counts even before that, unless it makes the object ready.
    """
    unobserved = find_unobserved(fields)
    if unobserved is None:
        return rule(fields)
    verdict = rule(fields) if is_refused(fields) else unobserved
    if verdict.state is not HealthState.READY:
        return verdict
    return dataclasses.replace(unobserved, is_pending=verdict.is_pending) if verdict.is_pending else unobserved


def is_refused(fields: Fields) -> bool:
    """Whether `Ready` is False for the latest generation, although the status as a whole describes an older one.

    Flux updates `observedGeneration` only after a success. Until then, only the conditions report problems.
    """
    generation = read_count(fields, "metadata.generation")
    return any(
        read_text(item, "type") == "Ready"
        and read_text(item, "status") == "False"
        and read_count(item, "observedGeneration") >= generation
        for item in read_items(fields, "status.conditions")
    )


def is_outdated(condition: Fields, fields: Fields) -> bool:
    """Whether a condition describes an older generation than the object's."""
    generation = read_count(fields, "metadata.generation")
    return read_count(condition, "observedGeneration", default=generation) < generation


def find_missing(label: str, found: int, wanted: int) -> HealthResult | None:
    """Return progressing while fewer pods than desired have this state."""
    reason = f"LessThan{label.title()}"
    return progressing(reason, f"{found} of {wanted} pods are {label}") if found < wanted else None
