"""Conditions of single resources besides their status, and the conditions of the Stack that follow from them.

Indexed by type as statuses change, so that building a status reads only the few resources that it names.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hearth.model import value_class
from hearth.model.child import Child, Object
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.state.condition_types import ConditionType

NAMED_AT_MOST = 5
"""Number of resources that one condition names. The others are counted."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExtraCondition:
    """Extra condition that is true."""

    type: ConditionType
    reason: str
    """One CamelCase word."""
    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ManagerQuery:
    """Query for the field managers that own these fields of an object."""

    child: Child
    lost: tuple[LostField, ...]
    manifest: Object
    """The manifest that the fields' paths refer to."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCondition:
    """Condition of one resource."""

    type: ConditionType
    reason: str
    """One CamelCase word."""
    message: str
    """Bounded text that begins with the name of the resource."""
    query: ManagerQuery | None = field(default=None, repr=False, compare=False)
    """The query whose answer the message still needs, or None."""


@dataclass(slots=True)
class ConditionAggregator:
    """Resource conditions by type."""

    by_type: dict[ConditionType, dict[str, ResourceCondition]] = field(default_factory=dict)

    def replace(self, name: str, old: Iterable[ResourceCondition], new: Iterable[ResourceCondition]) -> None:
        """Replace the conditions `old` of a resource with `new`."""
        kept = {condition.type: condition for condition in new}
        for condition in old:
            if condition.type not in kept and name in self.by_type.get(condition.type, {}):
                del self.by_type[condition.type][name]
        for condition in kept.values():
            self.by_type.setdefault(condition.type, {})[name] = condition

    def first(self, type_: ConditionType) -> Mapping[str, ResourceCondition]:
        """Return, by resource, the conditions that the Stack's condition names: by name, so that a restart changes none."""
        found = self.by_type.get(type_, {})
        return {name: found[name] for name in heapq.nsmallest(NAMED_AT_MOST, found)}

    def conditions(self) -> Iterator[ExtraCondition]:
        """Return the Stack's conditions that are true because of resource conditions."""
        for type_, conditions in self.by_type.items():
            if conditions:
                named = list(self.first(type_).values())
                more = f"; and {len(conditions) - len(named)} more" if len(conditions) > len(named) else ""
                message = "; ".join(condition.message for condition in named) + more
                yield ExtraCondition(type=type_, reason=named[0].reason, message=message)
