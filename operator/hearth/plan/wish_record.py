"""A wish as `status.wish` tells of it, where the next process reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import times
from hearth.model.child import Object
from hearth.plan import passages
from hearth.plan.wish import Motive, Order, Turn, Wish


def write(wish: Wish) -> Object:
    """As it stands in a status; what is not so is left out."""
    said: Object = {"revision": wish.revision, "cause": str(wish.motive), "since": times.format_time(wish.since)}
    flags = {"first": wish.is_first, "completed": wish.is_completed, "cleanupWaived": wish.is_waived}
    said.update({key: True for key, is_so in flags.items() if is_so})
    if wish.keeps:
        said["keeps"] = list(wish.keeps)
    if wish.order is not None:
        said["order"] = {
            "toRevision": wish.order.stated, "besideHash": wish.order.beside, "revision": wish.order.revision
        }  # fmt: skip
    if wish.turn is not None:
        said["turn"] = {"suspended": wish.turn.is_suspended, "since": times.format_time(wish.turn.since)}
        said["turn"].update({"reached": True} if wish.turn.is_reached else {})
    if wish.failed_hash:
        said["failedHash"] = wish.failed_hash
    if wish.failure:
        said["failure"] = wish.failure
    return {**said, **passages.write(wish.passages)}


def read(said: Mapping[str, Any] | None) -> Wish | None:
    """The wish that a status tells of, None where it tells of none that makes sense."""
    if not said:
        return None
    order = said.get("order")
    try:
        return Wish(
            revision=said["revision"],
            motive=Motive(said["cause"]),
            since=times.parse_time(said["since"]),
            is_first=bool(said.get("first")),
            is_completed=bool(said.get("completed")),
            is_waived=bool(said.get("cleanupWaived")),
            keeps=tuple(said.get("keeps") or ()),
            order=Order(stated=order["toRevision"], beside=order["besideHash"], revision=order["revision"])
            if order
            else None,
            failed_hash=said.get("failedHash", ""),
            failure=said.get("failure", ""),
            passages=passages.read(said),
            turn=_read_turn(said.get("turn")),
        )
    except (KeyError, TypeError, ValueError):
        # Somebody has written into the status: what was known is lost, and the spec counts.
        return None


def _read_turn(said: Mapping[str, Any] | None) -> Turn | None:
    """The turn that a status tells of. Raises KeyError, TypeError or ValueError where it makes no sense."""
    if not said:
        return None
    since = times.parse_time(said["since"])
    return Turn(is_suspended=bool(said["suspended"]), since=since, is_reached=bool(said.get("reached")))
