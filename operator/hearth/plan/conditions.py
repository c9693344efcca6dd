"""The conditions of a Stack after kstatus: `Ready`, the two that are true only when something is going on or wrong, and
those that are there only while they are true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hearth.model.child import Object
from hearth.model.phases import Saying

MESSAGE_LENGTH = 32_768
"""Characters; what the API conventions allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A condition that is there only while it is so: `Paused`, `RollingBack`."""

    type: str
    reason: str
    message: str


def judge(
    says: Saying,
    *,
    why: tuple[str, str],
    extras: Iterable[Extra] = (),
    generation: int,
    before: Iterable[Mapping[str, Any]],
    now: str,
) -> list[Object]:
    """All conditions.

    why: reason and message of `Ready`, which explain the two beside it as well; extras: those that hold besides;
    before: the conditions as they are, whose transition times last while their status does; now: RFC 3339.
    """
    reason, message = why
    known = {condition.get("type"): condition for condition in before}
    wanted = (
        ("Ready", says.ready, reason, message),
        ("Reconciling", str(says.reconciling), reason if says.reconciling else "Settled", message * says.reconciling),
        ("Stalled", str(says.stalled), reason if says.stalled else "NotStalled", message * says.stalled),
        *((extra.type, "True", extra.reason, extra.message) for extra in extras),
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


def find(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of that type in a status, or nothing."""
    return next((condition for condition in status.get("conditions") or () if condition.get("type") == type_), {})


def _since(before: Mapping[str, Any] | None, status: str, now: str) -> str:
    if before is not None and before.get("status") == status and before.get("lastTransitionTime"):
        return str(before["lastTransitionTime"])
    return now
