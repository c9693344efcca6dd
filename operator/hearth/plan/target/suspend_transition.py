"""Suspend and resume transitions in the target of a Stack. They name the current action, and have their own timeout."""

from __future__ import annotations

import dataclasses

from hearth.plan.target.target import SuspendTransition, Target


def follow_suspend(target: Target, *, is_suspended: bool, now: float) -> Target:
    """Update the target from `spec.suspended`; the same target if nothing changed. now: seconds since the epoch."""
    transition = target.suspend
    if is_suspended == (transition is not None and transition.is_suspended):
        return target
    if not is_suspended and target.is_rollback and not target.is_completed:
        # The user requested a rollback during the suspension: the next action is Rollback, not Resume.
        return dataclasses.replace(target, suspend=None, since=float(int(now)))
    return dataclasses.replace(target, suspend=SuspendTransition(is_suspended=is_suspended, since=float(int(now))))


def restart_timeout(target: Target, *, now: float) -> Target:
    """Restart the timeout of the target, if it is running. now: seconds since the epoch."""
    if target.started_at is None:
        return target
    since = float(int(now))
    if target.suspend is not None and not target.suspend.is_completed:
        return dataclasses.replace(target, suspend=dataclasses.replace(target.suspend, since=since))
    return dataclasses.replace(target, since=since)
