"""What a rollout knows of one instance, read from its status. Accepts statuses of any shape."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hearth.model import value_class
from hearth.model.phases import Phase
from hearth.plan.target.target import TargetCause

COMPLETE = frozenset({Phase.CREATE_COMPLETE, Phase.UPDATE_COMPLETE, Phase.RESUME_COMPLETE, Phase.CHECK_COMPLETE})
FAILED = frozenset({Phase.CREATE_FAILED, Phase.UPDATE_FAILED, Phase.RESUME_FAILED})
SELF_ROLLBACK = frozenset({Phase.ROLLBACK_IN_PROGRESS, Phase.ROLLBACK_COMPLETE, Phase.ROLLBACK_FAILED})


class Health(enum.Enum):
    """How an instance is at its own revision."""

    WELL = "Well"
    WORKING = "Working"
    """In progress."""
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    """It failed, and went back by itself: it runs, but not with its revision."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """One instance."""

    uid: str
    namespace: str
    name: str
    revision: int
    """The revision that it is given; it may not have reached it."""
    health: Health
    pin: int | None = None
    is_held: bool = False
    """Whether it stays as it is, although the definition changes: paused, suspended, stopped, or rolled back by its user."""
    labels: Mapping[str, str] = field(default_factory=dict)
    promoted: int = 0
    """The revision that its user promoted it to; 0 for none."""
    message: str = ""
    """Why it is not well."""

    @property
    def is_well(self) -> bool:
        """Return whether it runs: at its own revision, or at the one that it went back to by itself."""
        return self.health in (Health.WELL, Health.ROLLED_BACK)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_health(status: Mapping[str, Any], *, generation: int, revision: int) -> Health:
    """Return how an instance is, by its status. generation: of its spec; revision: that it is given."""
    phase = status.get("phase")
    is_current = status.get("observedGeneration") == generation and status.get("definitionRevision") == revision
    if phase in SELF_ROLLBACK and is_current:
        return Health.ROLLED_BACK if phase == Phase.ROLLBACK_COMPLETE else Health.FAILED
    if find_condition(status, "Stalled").get("status") == "True" or phase in FAILED:
        # A definition that does not fit is never reached.
        is_judged = is_current or status.get("observedGeneration") == generation
        return Health.FAILED if is_judged else Health.WORKING
    return Health.WELL if is_current and phase in COMPLETE else Health.WORKING


def find_message(status: Mapping[str, Any]) -> str:
    """Return why an instance is as it is: what made it go back by itself, else what its condition `Ready` says."""
    target = status.get("target")
    if isinstance(target, dict) and target.get("cause") == TargetCause.AUTOMATIC and target.get("message"):
        return str(target["message"])
    return str(find_condition(status, "Ready").get("message") or "")


def is_held(settings: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether an instance stays as it is. settings: its options, in the form of a Stack's spec."""
    rollback = settings.get("rollback")
    asked = rollback if isinstance(rollback, dict) else {}
    requested = asked.get("toRevision", asked.get("toSnapshot"))
    target = status.get("target")
    cause = target.get("cause") if isinstance(target, dict) else ""
    is_stopped = str(status.get("phase", "")).endswith("Stopped")
    is_rolled_back = requested is not None and cause == TargetCause.ROLLBACK
    return bool(settings.get("paused") or settings.get("suspended") or is_stopped or is_rolled_back)


def find_condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return the condition of that type; an empty one if there is none."""
    listed = status.get("conditions")
    found = (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else iter(())
    return next((each for each in found if each.get("type") == type_), {})
