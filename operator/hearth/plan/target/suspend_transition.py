"""How suspending and resuming a Stack goes into its wish: what is being done is called by it, and has a time of its own."""

from __future__ import annotations

import dataclasses

from hearth.plan.target.target import SuspendTransition, Target


def follow_suspend(wish: Target, *, is_suspended: bool, now: float) -> Target:
    """The wish under what the spec says now; the same one where that is known. now: seconds since the epoch."""
    turn = wish.suspend
    if is_suspended == (turn is not None and turn.is_suspended):
        return wish
    if not is_suspended and wish.is_rollback and not wish.is_completed:
        # It was ordered meanwhile: what follows is the rollback, and is called so.
        return dataclasses.replace(wish, suspend=None, since=float(int(now)))
    return dataclasses.replace(wish, suspend=SuspendTransition(is_suspended=is_suspended, since=float(int(now))))


def restart_timeout(wish: Target, *, now: float) -> Target:
    """The wish with its time begun anew, where that runs. now: seconds since the epoch."""
    if wish.started_at is None:
        return wish
    since = float(int(now))
    if wish.suspend is not None and not wish.suspend.is_completed:
        return dataclasses.replace(wish, suspend=dataclasses.replace(wish.suspend, since=since))
    return dataclasses.replace(wish, since=since)
