"""Whether what is unhealthy may be replaced now: the policy of its Stack, how many there are, and how often it happened.

Pure; time and chance are arguments. How a replacement goes: see `hearth.plan.resource.replace_unhealthy`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.plan.retry.backoff import FIRST_DELAY, GROWTH, BackoffPolicy
from hearth.plan.state.resource_conditions import ResourceCondition
from hearth.plan.state.resource_status import ResourceStatus

TYPE = "Unhealthy"
"""The condition that tells of it."""
EXPIRY_FACTOR = 2.0
"""For how many of the longest delays nothing must be marked until earlier marks are forgotten."""


class HealingMode(enum.StrEnum):
    """When unhealthy objects are replaced."""

    AUTOMATIC = "Automatic"
    """At once."""
    ON_UPDATE = "OnUpdate"
    """As a part of the next change of the definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealingPolicy:
    """What a Stack says of it."""

    policy: HealingMode = HealingMode.AUTOMATIC
    max_unhealthy: int | str | None = None
    """A number, or a share of all resources as in `40%`; None: any number."""

    def find_limit(self, total: int) -> int | None:
        """How many of so many resources may be unhealthy until none is replaced; at least 1."""
        if isinstance(self.max_unhealthy, str):
            return max(1, int(self.max_unhealthy.removesuffix("%")) * total // 100)
        return self.max_unhealthy


def parse(said: Mapping[str, Any]) -> HealingPolicy:
    """What `spec.healing` asks for; the API server has validated it."""
    return HealingPolicy(
        policy=HealingMode(said.get("policy", HealingMode.AUTOMATIC)),
        max_unhealthy=said.get("maxUnhealthy"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealingDelay:
    """Why something unhealthy is not replaced now."""

    reason: str
    """One CamelCase word."""
    message: str
    """With the way out."""


@dataclass(slots=True, kw_only=True)
class UnhealthyTracker:
    """The unhealthy resources of one Stack, and whether they may be replaced now."""

    total: int
    """All resources of the Stack."""
    healing: HealingPolicy = field(default_factory=HealingPolicy)
    is_completed: bool = False
    """Whether the present wish was reached in full: what fails before that is a part of reaching it."""
    names: dict[str, None] = field(default_factory=dict)
    """The unhealthy resources, the first that were seen first."""

    @property
    def is_over_limit(self) -> bool:
        """Whether more are unhealthy than may be replaced unasked."""
        limit = self.healing.find_limit(self.total)
        return limit is not None and len(self.names) > limit

    def update(self, name: str, standing: ResourceStatus) -> bool:
        """Take down how a resource does; whether all unhealthy ones are to be looked at again because of it."""
        is_unhealthy = any(remark.type == TYPE for remark in standing.conditions)
        is_unhealthy = is_unhealthy or (standing.is_terminal and self.is_completed)
        if is_unhealthy == (name in self.names):
            return False
        was_full = self.is_over_limit
        if is_unhealthy:
            self.names[name] = None
        else:
            del self.names[name]
        return self.is_over_limit != was_full

    def find_delay(self, *, is_marked: bool) -> HealingDelay | None:
        """Why a resource is not replaced now, None where it is. is_marked: else its object failed by itself."""
        if self.healing.policy is HealingMode.ON_UPDATE and self.is_completed:
            return HealingDelay(
                reason="WaitsForUpdate",
                message="it is replaced with the next change of the definition, as healing.policy is OnUpdate",
            )
        if self.is_over_limit and (is_marked or self.is_completed):
            allowed = self.healing.max_unhealthy
            share = f"{allowed} of {self.total} resources" if isinstance(allowed, str) else f"{allowed}"
            return HealingDelay(
                reason="TooManyUnhealthy",
                message=f"its replacement waits, as more are unhealthy than healing.maxUnhealthy allows ({share})",
            )
        return None


def delay_replacement(name: str, failed: ResourceStatus, obstacle: HealingDelay) -> ResourceStatus:
    """The standing of a resource whose object failed for good and is not replaced now."""
    remark = ResourceCondition(
        type=TYPE, reason=obstacle.reason, message=f"{name} ({failed.ref}) {failed.message}; {obstacle.message}"
    )
    message = f"{failed.message}; {obstacle.message}"
    return dataclasses.replace(failed, message=message, conditions=(*failed.conditions, remark))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkBackoff:
    """What is remembered of marks on objects of one resource. Lost with the process, which costs one early try."""

    uid: str
    """Of the object that was marked last."""
    count: int
    """Objects that were marked one after the other."""
    due: float
    """Monotonic seconds at which that one may be replaced."""
    forgotten_at: float
    """Monotonic seconds at which all of it is forgotten unless something was marked by then."""


def after_mark(previous: MarkBackoff | None, uid: str, *, now: float, patience: BackoffPolicy) -> MarkBackoff:
    """The spell as it stands after one more marked object: the first is replaced at once, the next ones more and more
    slowly. now: monotonic seconds.
    """
    count = previous.count + 1 if previous is not None and now < previous.forgotten_at else 1
    delay = 0.0
    if count > 1:
        delay = min(FIRST_DELAY * GROWTH ** min(count - 2, 30), patience.max_backoff) * (1 - patience.jitter() / 4)
    return MarkBackoff(
        uid=uid, count=count, due=now + delay, forgotten_at=now + delay + EXPIRY_FACTOR * patience.max_backoff
    )
