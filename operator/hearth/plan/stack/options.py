"""The part of a Stack's spec that says how to go about it, apart from what is built.

It always comes from the live spec: it is in no definition, no hash and no revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import times
from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.plan.retry import backoff
from hearth.plan.state import healing
from hearth.plan.state.healing import HealingPolicy

HISTORY_LIMIT = 10
"""Old revisions that are kept unless the Stack says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """How one Stack is to be converged."""

    is_paused: bool = False
    """Whether no child is to be written."""
    is_suspended: bool = False
    """Whether workloads are to be at nothing."""
    rollback_on_failure: bool = False
    """Whether a wish that fails gives way to the last one that was reached."""
    to_revision: int | None = None
    """The revision that the user orders back; 0: the last that completed."""
    retry_limit: int = backoff.LIMIT
    max_backoff: float | None = None
    """Seconds; None: as the operator was told."""
    timeout: float | None = None
    """Seconds that a wish may take until it counts as failed; None: any time."""
    history_limit: int = HISTORY_LIMIT
    healing: HealingPolicy = field(default_factory=HealingPolicy)
    """When unhealthy objects are replaced."""
    environment: EnvironmentRules = environment_rules.EMPTY
    """Breakpoints and restricted actions."""


def parse(spec: Mapping[str, Any], *, has_parents: bool = False) -> ReconcileOptions:
    """The flow that a spec asks for; the API server has validated it. has_parents: rules of a parent are in it."""
    rollback, retry = spec.get("rollback") or {}, spec.get("retry") or {}
    return ReconcileOptions(
        is_paused=bool(spec.get("paused")),
        is_suspended=bool(spec.get("suspended")),
        rollback_on_failure=bool(rollback.get("onFailure")),
        to_revision=rollback.get("toRevision"),
        retry_limit=retry.get("limit", backoff.LIMIT),
        max_backoff=_seconds(retry.get("maxBackoff")),
        timeout=_seconds(spec.get("timeout")),
        healing=healing.parse(spec.get("healing") or {}),
        history_limit=spec.get("revisionHistoryLimit", HISTORY_LIMIT),
        environment=environment_rules.parse(spec.get("environment"), has_parents=has_parents),
    )


def _seconds(text: str | None) -> float | None:
    return times.parse_duration(text) if text is not None else None
