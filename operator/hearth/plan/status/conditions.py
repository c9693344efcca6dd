"""Builds the conditions of a Stack: `Ready`, `Reconciling` and `Stalled` of kstatus, then the extra conditions.

The extra conditions are defined in `hearth.plan.state.condition_types`. The conditions that a template defines are last.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hearth.model import object_fields, phases
from hearth.model.child import Object
from hearth.model.phases import Answer, ConditionType, PhaseConditions
from hearth.plan.state.condition_types import ExtraCondition

MESSAGE_LENGTH = 32_768
"""Characters: the limit of the API conventions."""


class Judgement(NamedTuple):
    """A condition that a template defines."""

    type: str
    status: Answer
    reason: str
    message: str


def build_conditions(
    conditions: PhaseConditions,
    *,
    headline: tuple[str, str],
    generation: int,
    before: Iterable[Mapping[str, Any]],
    now: str,
    extras: Iterable[ExtraCondition] = (),
) -> list[Object]:
    """Build all conditions.

    headline: reason and message of `Ready`; before: the current conditions, whose transition times stay while their
    status stays; now: RFC 3339; extras: the extra conditions that are True, each type once.
    """
    reason, message = headline
    # Only `Ready` has the whole message, because a description of the Stack shows all conditions.
    brief = message.partition("\n")[0]
    known = {condition.get("type"): condition for condition in before}
    wanted = (
        ("Ready", conditions.ready, reason, message),
        (
            "Reconciling",
            str(conditions.reconciling),
            reason if conditions.reconciling else "Settled",
            brief * conditions.reconciling,
        ),
        (
            "Stalled",
            str(conditions.stalled),
            reason if conditions.stalled else "NotStalled",
            brief * conditions.stalled,
        ),
        *_judge_extras(extras, known),
    )
    return [_make(each, known.get(each[0]), generation=generation, now=now) for each in wanted]


def build_defined(
    defined: Iterable[Judgement] | None, *, generation: int, before: Iterable[Mapping[str, Any]], now: str
) -> list[Object]:
    """Build the conditions that the template defines. Arguments: see `build_conditions`.

    defined: None if the template is not known, so that the conditions of `before` stay.
    """
    known = {each.get("type"): each for each in before if each.get("type") not in phases.RESERVED_CONDITIONS}
    if defined is None:
        return [dict(each) for each in known.values()]
    return [_make(each, known.get(each.type), generation=generation, now=now) for each in defined]


def _make(wanted: tuple[str, str, str, str], before: Mapping[str, Any] | None, *, generation: int, now: str) -> Object:
    type_, status, reason, message = wanted
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message[:MESSAGE_LENGTH],
        "observedGeneration": generation,
        "lastTransitionTime": find_since(before, status, now),
    }


def _judge_extras(
    extras: Iterable[ExtraCondition], known: Mapping[Any, Mapping[str, Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """Return type, status, reason and message of the extra conditions.

    A condition that was never True is absent, because most Stacks have none. One that was True becomes False, so that
    `kubectl wait --for=condition=Drifted=false` ends.
    """
    true = {extra.type: extra for extra in extras}
    for type_ in ConditionType:
        if extra := true.get(type_):
            yield type_.value, "True", extra.reason, extra.message
        elif type_ in known:
            yield type_.value, "False", f"Not{type_}", ""


def find(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return the condition of that type in a status of any shape, or an empty one."""
    return next((each for each in object_fields.entries(status, "conditions") if each.get("type") == type_), {})


def find_since(before: Mapping[str, Any] | None, status: str, now: str) -> str:
    """Return the transition time of a condition: unchanged while its status stays, otherwise now."""
    if before is not None and before.get("status") == status and before.get("lastTransitionTime"):
        return str(before["lastTransitionTime"])
    return now


# The summary of conditions for metrics. The status is untrusted: any client with write access may have changed it.

STALLED: Final = "Stalled"
ROLLED_BACK: Final = "RolledBack"
"""Reason of `Ready` after an automatic rollback. It is shown like a condition, because a rollback on request has the
same phase.
"""
SHOWN: Final = frozenset({STALLED, *ConditionType})
"""The conditions that are counted. A fixed set, so that no client can add values of a label."""


def summarize(status: Any) -> tuple[tuple[str, ...], str]:
    """Return the shown conditions that are True, and since when the Stack is reconciling ("" if it is not).

    This runs for every status from a watch, so it takes one pass, and equal conditions are one object.
    """
    entries = status.get("conditions") if isinstance(status, dict) else None
    found: list[str] = []
    since: Any = ""
    for each in entries if isinstance(entries, list) else ():
        if not isinstance(each, dict) or not isinstance(type_ := each.get("type"), str):
            continue
        if each.get("status") == "True":
            if type_ in SHOWN:
                found.append(type_)
            elif type_ == "Reconciling":
                since = each.get("lastTransitionTime")
        elif type_ == "Ready" and each.get("reason") == ROLLED_BACK:
            found.append(ROLLED_BACK)
    return _share(tuple(sorted(set(found)))) if found else (), since if isinstance(since, str) else ""


@functools.lru_cache(maxsize=1024)
def _share(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for an equal tuple, because nearly all Stacks have the same few."""
    return found
