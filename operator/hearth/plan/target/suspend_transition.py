"""How suspending and resuming a Stack goes into its wish: what is being done is called by it, and has a time of its own."""

from __future__ import annotations

import dataclasses

from hearth.plan.target.target import Turn, Wish


def follow(wish: Wish, *, is_suspended: bool, now: float) -> Wish:
    """The wish under what the spec says now; the same one where that is known. now: seconds since the epoch."""
    turn = wish.turn
    if is_suspended == (turn is not None and turn.is_suspended):
        return wish
    if not is_suspended and wish.is_rollback and not wish.is_completed:
        # It was ordered meanwhile: what follows is the rollback, and is called so.
        return dataclasses.replace(wish, turn=None, since=float(int(now)))
    return dataclasses.replace(wish, turn=Turn(is_suspended=is_suspended, since=float(int(now))))


def restart(wish: Wish, *, now: float) -> Wish:
    """The wish with its time begun anew, where that runs. now: seconds since the epoch."""
    if wish.begun is None:
        return wish
    since = float(int(now))
    if wish.turn is not None and not wish.turn.is_reached:
        return dataclasses.replace(wish, turn=dataclasses.replace(wish.turn, since=since))
    return dataclasses.replace(wish, since=since)
