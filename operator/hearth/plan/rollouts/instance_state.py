"""Reads the state of an instance for a rollout from the instance's status.

A status counts only if it describes the current generation and the assigned revision. Its fields may have any shape.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hearth.model import object_fields, value_class
from hearth.model.phases import Phase
from hearth.plan.retry import failure_causes
from hearth.plan.status import conditions
from hearth.plan.target.target import TargetCause

UNHEALTHY_BEFORE = "unhealthy-before"
"""The last wave: instances that were unhealthy before they were moved."""
COMPLETE = frozenset({Phase.CREATE_COMPLETE, Phase.UPDATE_COMPLETE, Phase.RESUME_COMPLETE, Phase.CHECK_COMPLETE})
FAILED = frozenset({Phase.CREATE_FAILED, Phase.UPDATE_FAILED, Phase.RESUME_FAILED})
SELF_ROLLBACK = frozenset({Phase.ROLLBACK_IN_PROGRESS, Phase.ROLLBACK_COMPLETE, Phase.ROLLBACK_FAILED})


class Health(enum.Enum):
    """How an instance is at its own revision."""

    WELL = "Well"
    WORKING = "Working"
    """In progress."""
    RETRYING = "Retrying"
    """It fails for a cause that neither the definition nor its user controls, for example an unavailable webhook."""
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    """It failed and rolled back automatically: it runs, but not at its assigned revision."""
    BLOCKED = "Blocked"
    """It fails for a cause that its user can fix, for example an object with the same name."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """One instance, by its status."""

    uid: str
    namespace: str
    name: str
    revision: int
    """The revision that is assigned to the instance, although its objects may not have it yet."""
    observed: int = 0
    """The revision that its status describes; 0 for none."""
    active: int = 0
    """The revision that its objects have, or 0 if that is not known."""
    health: Health
    since: float | None = None
    """When it began to be in progress, in seconds since the epoch, or None if it is not."""
    pin: int | None = None
    pin_mistake: str = ""
    """Why it does not get the revision that it is pinned to, or "" if it does."""
    hold: str = ""
    """The user's decision that keeps the instance unchanged, or "" if there is none."""
    unfit: str = ""
    """Why its spec does not fit the newest revision, or "" if it does."""
    labels: Mapping[str, str] = field(default_factory=dict)
    promoted: int = 0
    """The revision that its user promoted it to; 0 for none."""
    message: str = ""
    """Why it is unhealthy."""

    @property
    def is_well(self) -> bool:
        """Return whether the instance runs, at its assigned revision or after an automatic rollback."""
        return self.health in (Health.WELL, Health.ROLLED_BACK)

    @property
    def is_at_revision(self) -> bool:
        """Whether its objects are known to have the assigned revision."""
        return self.active in (0, self.revision) or self.observed != self.revision

    def may_move(self, number: int) -> bool:
        """Return whether a later status about that revision must describe this move, not an earlier one.

        A status names a revision, but not the time when the instance got it. An instance therefore moves back to a
        revision only after a status about its current revision.
        """
        return self.observed == self.revision or number > max(self.revision, self.observed)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_observed(status: Mapping[str, Any]) -> int:
    """Return the revision that a status describes; 0 for none.

    Statuses from earlier versions contain only the revision of the objects.
    """
    observed = object_fields.number(status, "observedDefinitionRevision")
    return (observed if observed is not None else object_fields.number(status, "definitionRevision")) or 0


def find_health(status: Mapping[str, Any], *, generation: int, revision: int) -> Health:
    """Return the state of an instance, from its status. generation: of its spec; revision: the assigned one."""
    if status.get("observedGeneration") != generation or find_observed(status) != revision:
        return Health.WORKING
    phase = status.get("phase")
    if phase == Phase.ROLLBACK_COMPLETE:
        return judge_causes(find_causes(status), otherwise_health=Health.ROLLED_BACK)
    is_stalled = conditions.find(status, "Stalled").get("status") == "True"
    if is_stalled or phase in FAILED or phase in SELF_ROLLBACK:
        return judge_causes(find_causes(status), otherwise_health=Health.FAILED)
    return Health.WELL if phase in COMPLETE else Health.WORKING


def judge_causes(reasons: frozenset[str], *, otherwise_health: Health) -> Health:
    """Return the state of an instance that fails for these reasons."""
    if reasons and reasons <= failure_causes.OF_TENANT:
        return Health.BLOCKED
    if reasons and reasons <= failure_causes.OF_TENANT | failure_causes.OUTAGES:
        # An instance that rolled back on its own is not retried, so its user has to act.
        return Health.RETRYING if otherwise_health is Health.FAILED else Health.BLOCKED
    return otherwise_health


def find_causes(status: Mapping[str, Any]) -> frozenset[str]:
    """Return the reasons why an instance fails, or rolled back on its own."""
    target = status.get("target")
    if isinstance(target, dict) and target.get("cause") == TargetCause.AUTOMATIC:
        return frozenset({object_fields.text(target, "reason")}) - {""}
    # Failed resources are listed first.
    failed = object_fields.number(status, "resources", "failed") or 0
    listed = list(object_fields.entries(status, "problems"))[:failed]
    found = frozenset(object_fields.text(each, "reason") for each in listed)
    return found or frozenset({str(conditions.find(status, "Ready").get("reason") or "")}) - {""}


def find_message(status: Mapping[str, Any]) -> str:
    """Explain the state of an instance: the reason of its rollback, otherwise the message of its condition `Ready`."""
    target = status.get("target")
    if isinstance(target, dict) and target.get("cause") == TargetCause.AUTOMATIC and target.get("message"):
        return str(target["message"])
    return str(conditions.find(status, "Ready").get("message") or "")


def find_hold_cause(settings: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return which decision of its user keeps an instance unchanged, or "" if none does.

    settings: its options, in the form of a Stack's spec.
    """
    if settings.get("paused"):
        return "is paused"
    if settings.get("suspended"):
        return "is suspended"
    if str(status.get("phase", "")).endswith("Stopped"):
        return "is stopped at a breakpoint"
    asked = object_fields.mapping(settings, "rollback")
    target = status.get("target")
    cause = target.get("cause") if isinstance(target, dict) else ""
    is_asked = asked.get("toRevision", asked.get("toSnapshot")) is not None
    return "was rolled back by its user" if is_asked and cause == TargetCause.ROLLBACK else ""


def read_since(status: Mapping[str, Any]) -> str:
    """Return since when an instance has been in progress, from its status, or "" if it is not in progress."""
    return conditions.summarize(status)[1]
