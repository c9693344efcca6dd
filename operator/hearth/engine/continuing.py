"""Obeys `hearth.dev/continue`: lets one resource pass the breakpoint that it waits at, and answers where nobody waits."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.plan import passages, stops, waits
from hearth.plan.board import Board

SHOWN = 120
"""Characters of an order that an answer repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one order."""

    message: str
    passed: tuple[str, str] | None = None
    """The resource and its hook; None where nobody waits there."""


def parse(order: str) -> tuple[str, str]:
    """Resource and hook, "" for any, of `<resource>[/<hook>][@<token>]`."""
    target = order.partition("@")[0]
    resource, _, hook = target.rpartition("/")
    return (resource, hook) if hook in stops.HOOKS else (target, "")


def answer(order: str, board: Board) -> Answer:
    """What is to be done about an order, where everything was looked at."""
    resource, hook = parse(order)
    waiting = list(waits.find_waits(board))
    found = next((wait for wait in waiting if wait.resource == resource and hook in ("", wait.hook)), None)
    if found is not None:
        message = f"{resource} goes on past {found.hook}, as hearth.dev/continue says"
        return Answer(message=message, passed=(resource, found.hook))
    keys = [passages.name(wait.resource, wait.hook) for wait in waiting[:5]]
    there = f"what waits now: {', '.join(keys)}" if keys else "nothing waits at a breakpoint now"
    return Answer(message=f"hearth.dev/continue: {order[:SHOWN]}: nobody waits there; {there}")
