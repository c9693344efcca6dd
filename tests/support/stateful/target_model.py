"""A model that only knows the target: the definitions that a Stack may follow after all changes by its user so far.

Written from the meaning of targets, not from the operator's code. The model cannot know which changes the operator
noticed before the next change or crash, so it keeps all possible states, and the Stack at rest shows the actual one.
Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

SPEC, ORDERED, AUTOMATIC = "Spec", "Rollback", "AutomaticRollback"
NOTHING = ""
"""The definition without any objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A `toRevision` as it was understood."""

    stated: int
    beside: str
    """The definition in the spec when the order was given."""
    means: str | None
    """The definition rolled back to; None if it did not exist, so that the order was rejected."""
    is_ended: bool = False
    """Whether a retry requested the definition in the spec again after the rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The contents of the spec."""

    definition: str
    to_revision: int | None = None
    on_failure: bool = False
    is_mistaken: bool = False
    """Whether the definition is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """A possible state: the definition that a Stack follows."""

    cause: str = ""
    """The cause of the target; "" before anything was accepted."""
    wants: str = NOTHING
    is_reached: bool = False
    last: str | None = None
    """The last definition that was reached."""
    previous: str | None = None
    """The completed definition before that one."""
    order: Order | None = None
    given_up: str = ""
    """Automatic rollbacks only: the definition that failed."""
    is_refused: bool = False
    """Whether the spec is invalid."""


def look(mind: Mind, asked: Asked, revisions: Mapping[int, str], *, is_retried: bool = False) -> Mind:
    """The followed definition after reading the spec. revisions: the kept definitions, by number."""
    order = None
    if asked.to_revision is not None:
        order = settle(mind, asked, asked.to_revision, revisions)
        if is_retried and mind.cause == ORDERED and mind.is_reached and order == mind.order:
            order = dataclasses.replace(order, is_ended=True)
        if order.beside == asked.definition and not order.is_ended:
            if order.means is None:
                # Before anything was accepted, there is no status to record it.
                return dataclasses.replace(mind, is_refused=True, order=order if mind.cause else None)
            return follow(mind, ORDERED, order.means, order)
    if mind.cause == AUTOMATIC and mind.given_up == asked.definition and not is_retried:
        return dataclasses.replace(mind, order=order, is_refused=False)
    if asked.is_mistaken:
        return dataclasses.replace(mind, is_refused=True)
    return follow(mind, SPEC, asked.definition, order)


def settle(mind: Mind, asked: Asked, stated: int, revisions: Mapping[int, str]) -> Order:
    """Resolve a rollback order once, with the definition of that time."""
    known = mind.order
    if known is not None and known.stated == stated and (known.means is not None or known.beside != asked.definition):
        return known
    other = mind.previous if mind.last == asked.definition else mind.last
    means = revisions.get(stated) if stated else other
    return Order(stated=stated, beside=asked.definition, means=means)


def follow(mind: Mind, cause: str, wants: str, order: Order | None) -> Mind:
    """Follow a definition; if it is already followed, nothing restarts."""
    is_same = mind.cause == cause and mind.wants == wants and (cause != ORDERED or mind.order == order)
    if is_same:
        return dataclasses.replace(mind, order=order, is_refused=False)
    return Mind(cause=cause, wants=wants, last=mind.last, previous=mind.previous, order=order)


def reach(mind: Mind) -> Mind:
    """The followed definition is complete."""
    if mind.is_reached or mind.is_refused or not mind.cause:
        return mind
    reached = dataclasses.replace(mind, is_reached=True)
    if mind.wants in (NOTHING, mind.last):
        return reached
    return dataclasses.replace(reached, last=mind.wants, previous=mind.last)


def may_give_up(mind: Mind, asked: Asked) -> bool:
    """Whether a failure starts a rollback."""
    is_plain = mind.cause == SPEC and not mind.is_reached and not mind.is_refused
    return asked.on_failure and is_plain and mind.wants != mind.last


def give_up(mind: Mind) -> Mind:
    """Return to the last completed definition, or to nothing."""
    wants = mind.last if mind.last is not None else NOTHING
    return Mind(
        cause=AUTOMATIC,
        wants=wants,
        last=mind.last,
        previous=mind.previous,
        order=mind.order,
        given_up=mind.wants,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The spec, and the possible outcomes of definitions."""

    asked: Asked
    revisions: Mapping[int, str]
    may_fail: Callable[[str], bool]
    must_fail: Callable[[str], bool]
    is_retried: bool = False
    is_paused: bool = False


def spread(minds: Iterable[Mind], now: Circumstances) -> set[Mind]:
    """All possible states so far."""
    found: set[Mind] = set()
    queue = list(minds)
    while queue:
        mind = queue.pop()
        if mind in found:
            continue
        found.add(mind)
        queue.append(look(mind, now.asked, now.revisions))
        if now.is_retried:
            queue.append(look(mind, now.asked, now.revisions, is_retried=True))
        if not now.must_fail(mind.wants):
            queue.append(reach(mind))
        if now.may_fail(mind.wants) and may_give_up(mind, now.asked) and not now.is_paused:
            queue.append(give_up(mind))
    return found


def rest(minds: Iterable[Mind], now: Circumstances) -> set[Mind]:
    """The possible states of a Stack at rest."""
    return {mind for mind in spread(minds, now) if is_settled(mind, now)}


def is_settled(mind: Mind, now: Circumstances) -> bool:
    """Whether no further change follows."""
    if look(mind, now.asked, now.revisions) != mind:
        return False
    if now.is_paused or mind.is_refused:
        return True
    if now.must_fail(mind.wants) and may_give_up(mind, now.asked):
        return False
    return mind.is_reached or now.may_fail(mind.wants)
