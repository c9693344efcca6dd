"""Suspend and resume transitions in the target of a Stack. They name the current action, and have their own timeout."""

from __future__ import annotations

import dataclasses

from hearth.plan.target.target import SuspendTransition, Target


def follow_suspend(wish: Target, *, is_suspended: bool, now: float) -> Target:
    """Update the target from `spec.suspended`; the same target if nothing changed. now: seconds since the epoch."""
    turn = wish.suspend
    if is_suspended == (turn is not None and turn.is_suspended):
        return wish
    if not is_suspended and wish.is_rollback and not wish.is_completed:
        # The user requested a rollback during the suspension: the next action is Rollback, not Resume.
        return dataclasses.replace(wish, suspend=None, since=float(int(now)))
    return dataclasses.replace(wish, suspend=SuspendTransition(is_suspended=is_suspended, since=float(int(now))))


def restart_timeout(wish: Target, *, now: float) -> Target:
    """Restart the timeout of the target, if it is running. now: seconds since the epoch."""
    if wish.started_at is None:
        return wish
    since = float(int(now))
    if wish.suspend is not None and not wish.suspend.is_completed:
        return dataclasses.replace(wish, suspend=dataclasses.replace(wish.suspend, since=since))
    return dataclasses.replace(wish, since=since)
