"""Sends the decision of a user about a StackPlan or a gate. The webhook checks and signs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hearth.model import errors, limits, names
from hearth.model.approvals import Approval, Decision
from hearth.model.child import Object
from hearth.model.kinds import Kind

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

UNSTAMPED: Final = (
    "the decision does not count, because the cluster has no admission webhook for {kind}s, which checks the right to "
    "decide; ask an administrator to enable the webhook of the operator"
)
KEYS: Final = {Decision.APPROVED: names.REQUEST_APPROVE, Decision.REJECTED: names.REQUEST_REJECT}


class DecisionUnstamped(errors.HearthError):
    """The decision was written, but nothing checked it; the administrator must enable the webhook."""


def write_request(digest: str, reason: str) -> str:
    """Return the value of the annotation with which a user decides."""
    return f"{digest} {reason[: limits.APPROVAL_REASON]}".strip()


async def send_decision(
    session: Session,
    kind: Kind,
    metadata: Mapping[str, Any],
    *,
    decision: Decision,
    request: str,
    read_stamp: Callable[[Object], Approval | None],
) -> Approval:
    """Write a decision, and return its stamp. Raises DecisionUnstamped, ApiStatusError and Unreachable.

    metadata: of the object, whose UID makes sure that it is still the same. request: see `write_request`. read_stamp: returns the stamp in the written
    object, or None.
    """
    key, name = KEYS[decision], metadata["name"]

    async def annotate(value: str | None) -> Object:
        body = {"metadata": {"uid": metadata["uid"], "annotations": {key: value}}}
        return await session.patch(kind, metadata.get("namespace") or "", name, body=body)

    if key in (metadata.get("annotations") or {}):
        # From a time without a webhook. The same value again would be no change, and the webhook would not see it.
        await annotate(None)
    written = await annotate(request)
    stamp = read_stamp(written)
    if stamp is None or any(each in (written["metadata"].get("annotations") or {}) for each in KEYS.values()):
        raise DecisionUnstamped(f"{kind.name.lower()}/{name}: {UNSTAMPED.format(kind=kind.name)}")
    return stamp
