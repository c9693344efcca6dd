"""The conditions of a Stack: after kstatus `Ready` and the two that are true only when something is going on or wrong;
then the extra ones, each of which tells of one thing that its owner should know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth.model.child import Object
from hearth.model.phases import PhaseConditions
from hearth.plan.state.resource_conditions import ExtraCondition

MESSAGE_LENGTH = 32_768
"""Characters; what the API conventions allow."""
TAMPERED = "RevisionTampered"
"""A stored revision is not as this operator wrote it."""
EXTRA_TYPES = (
    "Paused",
    "Stopped",
    "RollingBack",
    "Drifted",
    "Contested",
    "Unhealthy",
    "DeletionBlocked",
    "Checking",
    TAMPERED,
    "InternalError",
    "SuspendRecordInvalid",
)
"""The conditions that may be there besides, in the order in which they are shown."""


def build_conditions(
    says: PhaseConditions,
    *,
    headline: tuple[str, str],
    generation: int,
    before: Iterable[Mapping[str, Any]],
    now: str,
    extras: Iterable[ExtraCondition] = (),
) -> list[Object]:
    """All conditions.

    headline: reason and message of `Ready`; before: the conditions as they are, whose transition times last while their
    status does; now: RFC 3339; extras: what is true besides, each type once.
    """
    reason, message = headline
    known = {condition.get("type"): condition for condition in before}
    wanted = (
        ("Ready", says.ready, reason, message),
        ("Reconciling", str(says.reconciling), reason if says.reconciling else "Settled", message * says.reconciling),
        ("Stalled", str(says.stalled), reason if says.stalled else "NotStalled", message * says.stalled),
        *_judge_extras(extras, known),
    )
    return [
        {
            "type": type_,
            "status": status,
            "reason": why,
            "message": words[:MESSAGE_LENGTH],
            "observedGeneration": generation,
            "lastTransitionTime": _since(known.get(type_), status, now),
        }
        for type_, status, why, words in wanted
    ]


def _judge_extras(
    extras: Iterable[ExtraCondition], known: Mapping[Any, Mapping[str, Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """Type, status, reason and message of the extra conditions.

    One that never was true is not there, as most Stacks never see any of them; one that no longer is says False, so that
    `kubectl wait --for=condition=Drifted=false` comes to an end.
    """
    true = {extra.type: extra for extra in extras}
    for type_ in EXTRA_TYPES:
        if extra := true.get(type_):
            yield type_, "True", extra.reason, extra.message
        elif type_ in known:
            yield type_, "False", f"Not{type_}", ""


def find(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of that type in a status, or nothing."""
    return next((condition for condition in status.get("conditions") or () if condition.get("type") == type_), {})


def _since(before: Mapping[str, Any] | None, status: str, now: str) -> str:
    if before is not None and before.get("status") == status and before.get("lastTransitionTime"):
        return str(before["lastTransitionTime"])
    return now
