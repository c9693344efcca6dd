"""The StackPlans of a Stack, and stamps as the webhook writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hearth.model import approvals
from hearth.model.approvals import Approval, ApprovalSubject, Decision
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.ownership.keyed_hash import KeyedHasher

FORGED = "forged"
OTHER_KEY = KeyedHasher(b"not the key of this cluster")


def sort_plans(found: Iterable[Object], stack_uid: str) -> list[Object]:
    """The StackPlans of one Stack, the oldest first."""
    plans = [
        {"apiVersion": "hearth.dev/v1alpha1", "kind": "StackPlan", **raw}
        for raw in found
        if raw["spec"]["stackRef"]["uid"] == stack_uid
    ]
    return sorted(
        plans, key=lambda raw: (raw["metadata"]["creationTimestamp"], int(raw["metadata"]["resourceVersion"]))
    )


def make_stamp(plan: Object, decision: str, *, signer: KeyedHasher, now: float) -> str:
    """The stamp of a decision: `approved`, `rejected`, or `forged` for an approval with another key."""
    metadata = plan["metadata"]
    identity = ApprovalSubject(
        namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"], digest=plan["spec"]["digest"]
    )
    is_forged = decision == FORGED
    approval = Approval(
        decision=Decision.APPROVED if is_forged else Decision(decision), user="bob", time=times.format_time(now)
    )
    return approvals.sign_approval(approval, identity, signer=OTHER_KEY if is_forged else signer)
