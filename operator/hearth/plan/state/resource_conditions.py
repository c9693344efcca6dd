"""What is to be said of single resources beside how they stand, and the conditions of the Stack that follow from it.

Kept by type as standings change, so that a status costs a look at the few that it names. Knows no condition by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

NAMED_AT_MOST = 5
"""Resources that one condition names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraCondition:
    """An extra condition that is true."""

    type: str
    """One of `plan.status.conditions.EXTRA_TYPES`."""
    reason: str
    """One CamelCase word."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCondition:
    """One thing to say of one resource."""

    type: str
    """Of the condition that says it: one of `conditions.EXTRA_TYPES`."""
    reason: str
    """One CamelCase word."""
    message: str
    """Bounded; begins with what the resource is called."""


class HasConditions(Protocol):
    """Something that carries remarks, each of another type."""

    @property
    def conditions(self) -> tuple[ResourceCondition, ...]:
        """What is to be said of it."""


@dataclass(slots=True)
class ConditionAggregator:
    """By type of condition the resources of which something is to be said, the first that were seen first."""

    by_type: dict[str, dict[str, ResourceCondition]] = field(default_factory=dict)

    def replace(self, name: str, old: Iterable[ResourceCondition], new: Iterable[ResourceCondition]) -> None:
        """Take `new` for what is to be said of a resource, in the place of `old`."""
        kept = {remark.type: remark for remark in new}
        for remark in old:
            if remark.type not in kept and name in self.by_type.get(remark.type, {}):
                del self.by_type[remark.type][name]
        for remark in kept.values():
            self.by_type.setdefault(remark.type, {})[name] = remark

    def first(self, type_: str) -> Mapping[str, ResourceCondition]:
        """By resource what that condition names."""
        return dict(itertools.islice(self.by_type.get(type_, {}).items(), NAMED_AT_MOST))

    def conditions(self) -> Iterator[ExtraCondition]:
        """The conditions that are true because of them."""
        for type_, remarks in self.by_type.items():
            if remarks:
                named = list(self.first(type_).values())
                more = f"; and {len(remarks) - len(named)} more" if len(remarks) > len(named) else ""
                message = "; ".join(remark.message for remark in named) + more
                yield ExtraCondition(type=type_, reason=named[0].reason, message=message)
