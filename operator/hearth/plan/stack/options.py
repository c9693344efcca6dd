"""Parses the options of a Stack's spec that control reconciliation, for example `paused`.

Options always come from the live spec, never from a revision. They are not part of the definition or its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hearth.model import limits, value_class, windows
from hearth.model.text import times
from hearth.model.windows import Window
from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.plan.retry import backoff
from hearth.plan.state import healing
from hearth.plan.state.healing import HealingPolicy
from hearth.plan.target import change_plans
from hearth.plan.target.change_plans import ApprovalPolicy

HISTORY_LIMIT = 10
"""Default number of old revisions to retain."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """Options for the reconciliation of one Stack."""

    is_paused: bool = False
    """Whether writes to children are forbidden."""
    is_protected: bool = False
    """Whether the deletion of the Stack is forbidden."""
    expires_after: float | None = None
    """Seconds from the creation of the Stack to its deletion; None: it does not expire."""
    is_suspended: bool = False
    """Whether workloads must be suspended."""
    rollback_on_failure: bool = False
    """Whether a failed target causes a rollback to the last completed revision."""
    to_revision: int | None = None
    """Requested rollback revision. 0 means the last completed revision."""
    to_snapshot: str = ""
    """The StackSnapshot of the restore request; "" for none."""
    retry_limit: int = backoff.LIMIT
    max_backoff: float | None = None
    """Seconds; None: the default of the operator."""
    timeout: float | None = None
    """Seconds until an incomplete target counts as failed; None: no limit."""
    history_limit: int = HISTORY_LIMIT
    healing: HealingPolicy = field(default_factory=HealingPolicy)
    """When to replace unhealthy objects."""
    window: Window | None = None
    """When a change of the definition may begin; None: at any time."""
    approval: ApprovalPolicy | None = None
    """Which approval a change of the definition needs; None for none."""
    max_removed: int | str | None = None
    """How many resources a change can remove: a number or a percentage; None: no limit."""
    environment: EnvironmentRules = environment_rules.EMPTY
    """Breakpoints and restricted actions."""


def parse(spec: Mapping[str, Any], *, has_parents: bool = False) -> ReconcileOptions:
    """Parse the options of a spec that the API server validated. has_parents: whether some rules come from a parent."""
    rollback, retry = spec.get("rollback") or {}, spec.get("retry") or {}
    return ReconcileOptions(
        is_paused=bool(spec.get("paused")),
        is_protected=is_protected(spec),
        expires_after=_seconds(spec.get("expiresAfter")),
        is_suspended=bool(spec.get("suspended")),
        rollback_on_failure=bool(rollback.get("onFailure")),
        to_revision=rollback.get("toRevision"),
        to_snapshot=rollback.get("toSnapshot") or "",
        retry_limit=retry.get("limit", backoff.LIMIT),
        max_backoff=_seconds(retry.get("maxBackoff")),
        timeout=_seconds(spec.get("timeout")),
        healing=healing.parse(spec.get("healing") or {}),
        history_limit=min(spec.get("revisionHistoryLimit", HISTORY_LIMIT), limits.REVISION_HISTORY),
        window=windows.parse(spec["window"]) if spec.get("window") is not None else None,
        approval=change_plans.parse_policy(spec),
        max_removed=spec.get("maxRemoved"),
        environment=environment_rules.parse(spec.get("environment"), has_parents=has_parents),
    )


def is_protected(spec: Mapping[str, Any]) -> bool:
    """Return whether a spec, or its options, forbids the deletion of the Stack."""
    return spec.get("protected") is True


def _seconds(text: str | None) -> float | None:
    return times.parse_duration(text) if text is not None else None
