"""Limits the replacement of unhealthy objects: the healing policy, the number of unhealthy resources, and mark backoff.

`hearth.plan.resource.decide` plans the replacement.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import value_class
from hearth.model.phases import ConditionType
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.state.resource_status import ResourceCondition, ResourceStatus

EXPIRY_FACTOR = 2.0
"""Earlier marks are forgotten after this many maximum delays without a mark."""


class HealingMode(enum.StrEnum):
    """When unhealthy objects are replaced."""

    AUTOMATIC = "Automatic"
    """Immediately."""
    ON_UPDATE = "OnUpdate"
    """With the next change of the definition, or a requested retry."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HealingPolicy:
    """Healing policy of a Stack."""

    mode: HealingMode = HealingMode.AUTOMATIC
    max_unhealthy: int | str | None = None
    """A number, or a percentage of all resources, for example `40%`. None means no limit."""

    @property
    def waits_for_update(self) -> bool:
        """Whether unhealthy objects of a completed target are replaced only with the next update."""
        return self.mode is HealingMode.ON_UPDATE

    def find_limit(self, total: int) -> int | None:
        """Return how many of `total` resources may be unhealthy before replacement stops.

        A percentage gives at least 1.
        """
        if isinstance(self.max_unhealthy, str):
            return max(1, int(self.max_unhealthy.removesuffix("%")) * total // 100)
        return self.max_unhealthy


def parse(spec: Mapping[str, Any]) -> HealingPolicy:
    """Parse `spec.healing`, which the API server has validated."""
    return HealingPolicy(
        mode=HealingMode(spec.get("policy", HealingMode.AUTOMATIC)), max_unhealthy=spec.get("maxUnhealthy")
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HealingDelay:
    """Reason why an unhealthy object is not replaced now."""

    reason: str
    """One CamelCase word."""
    message: str
    """The message, including the remedy."""


@dataclass(slots=True, kw_only=True)
class UnhealthyTracker:
    """Unhealthy resources of one Stack, and whether they may be replaced now."""

    total: int
    """The number of all resources of the Stack."""
    healing: HealingPolicy = field(default_factory=HealingPolicy)
    is_completed: bool = False
    """Whether the current target was completed. Failures before that are part of reaching it."""
    names: dict[str, None] = field(default_factory=dict)
    """The unhealthy resources in the order of detection."""

    @property
    def is_over_limit(self) -> bool:
        """Return whether more resources are unhealthy than may be replaced automatically."""
        limit = self.healing.find_limit(self.total)
        return limit is not None and len(self.names) > limit

    def update(self, name: str, status: ResourceStatus) -> bool:
        """Update the health of a resource. Return whether all unhealthy resources must be planned again."""
        is_unhealthy = any(condition.type is ConditionType.UNHEALTHY for condition in status.conditions)
        is_unhealthy = is_unhealthy or (status.is_terminal and self.is_completed)
        if is_unhealthy == (name in self.names):
            return False
        was_full = self.is_over_limit
        if is_unhealthy:
            self.names[name] = None
        else:
            del self.names[name]
        return self.is_over_limit != was_full

    def find_delay(self, *, is_marked: bool) -> HealingDelay | None:
        """Return why a resource is not replaced now, or None if it is.

        is_marked: False if its object failed without a mark.
        """
        if self.healing.waits_for_update and self.is_completed:
            return HealingDelay(
                reason="WaitingForUpdate",
                message="it is replaced with the next change of the definition, or a requested retry, because healing.policy is OnUpdate",
            )
        if self.is_over_limit and (is_marked or self.is_completed):
            allowed = self.healing.max_unhealthy
            share = f"{allowed} of {self.total} resources" if isinstance(allowed, str) else f"{allowed}"
            return HealingDelay(
                reason="TooManyUnhealthy",
                message=f"its replacement waits because more resources are unhealthy than healing.maxUnhealthy allows ({share})",
            )
        return None


def delay_replacement(name: str, status: ResourceStatus, delay: HealingDelay) -> ResourceStatus:
    """Return the status of a resource whose object failed permanently and is not replaced now."""
    condition = ResourceCondition(
        type=ConditionType.UNHEALTHY,
        reason=delay.reason,
        message=f"{name} ({status.ref}) {status.message}; {delay.message}",
    )
    message = f"{status.message}; {delay.message}"
    return dataclasses.replace(status, message=message, conditions=(*status.conditions, condition))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkBackoff:
    """Backoff for marks on objects of one resource. Lost with the process, which costs one early attempt."""

    uid: str
    """UID of the object that was marked last."""
    count: int
    """Number of consecutively marked objects."""
    due: float
    """Monotonic seconds when the marked object may be replaced."""
    forgotten_at: float
    """Monotonic seconds when the backoff expires if no further object is marked."""


def after_mark(previous: MarkBackoff | None, uid: str, *, now: float, backoff: BackoffPolicy) -> MarkBackoff:
    """Return the backoff after one more marked object.

    The first object is replaced immediately, the next ones with growing delays. now: monotonic seconds.
    """
    count = previous.count + 1 if previous is not None and now < previous.forgotten_at else 1
    delay = backoff.find_delay(count - 1) if count > 1 else 0.0
    return MarkBackoff(
        uid=uid, count=count, due=now + delay, forgotten_at=now + delay + EXPIRY_FACTOR * backoff.max_backoff
    )
