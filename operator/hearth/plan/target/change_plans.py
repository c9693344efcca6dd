"""Plans of changes that wait for an approval: what identifies and proves a plan, and its status. Pure.

A plan counts only with the operator's signature, which covers its namespace, name, Stack and whole content.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.signatures import Signatures, Signer
from hearth.model.text import times
from hearth.model.windows import Window
from hearth.plan.ownership import keyed_hash
from hearth.plan.target.target import EMPTY_REVISION, TargetCause
from hearth.plan.target.target_choice import TargetChoice

PURPOSE: Final = "plan"
"""The purpose of a plan's signature. Signatures for other purposes are not valid for a plan."""
REQUIRED_NEVER: Final = "Never"
REQUIRED_RISKY: Final = "Risky"
VALID_FOR: Final = "24h"
"""How long a plan is valid by default."""
KEPT: Final = 5
"""Plans of earlier changes of one Stack that are kept for people."""


class PlanPhase(enum.StrEnum):
    """State of a plan, for people. The engine reads back only that a plan is superseded: it is then made again."""

    PENDING = "Pending"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    SUPERSEDED = "Superseded"
    EXPIRED = "Expired"


ENDED: Final = frozenset({PlanPhase.COMPLETED, PlanPhase.FAILED, PlanPhase.SUPERSEDED})
"""Phases that no later change of the Stack replaces."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Which approval a change of the definition needs."""

    valid_for: str = VALID_FOR
    """How long a plan is valid, e.g. `24h`."""
    is_for_risks: bool = False
    """Whether only a change with a risky step needs an approval."""
    is_separate: bool = False
    """Whether the authors of a change cannot approve it."""
    authors: tuple[str, ...] = ()
    """The users who wrote the change; () if unknown."""
    window: Window | None = None
    """When an approved change may begin; None for any time."""


DEFAULT_POLICY: Final = ApprovalPolicy()
"""The policy of the change that switches approvals off."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ChangeIdentity:
    """The change that a plan is for. No two changes of a Stack that run have the same one."""

    definition_hash: str
    base_revision: int
    """The revision that runs before the change; 0 for none."""
    previous_plan: str
    """The UID of the last plan that ran, or the generation since when changes need an approval."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedChange:
    """The steps of a change, as its preview shows them."""

    generation: int
    """The generation of the Stack in the preview."""
    sources: Mapping[str, str]
    """The resource versions of the sources of the definition in the preview, by reference."""
    steps: tuple[Object, ...]
    """As in the API."""
    undo: str = ""
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def parse_policy(spec: Mapping[str, Any]) -> ApprovalPolicy | None:
    """Return the policy in the spec of a Stack, or None if changes need no approval."""
    approval = spec.get("approval")
    if approval is None:
        return None
    stated = approval if isinstance(approval, dict) else {"required": approval}
    required = stated.get("required", REQUIRED_NEVER)
    if required == REQUIRED_NEVER:
        return None
    return ApprovalPolicy(
        valid_for=stated.get("validFor") or VALID_FOR,
        is_for_risks=required == REQUIRED_RISKY,
        is_separate=stated.get("separateApprover") is True,
    )


def add_authors(policy: ApprovalPolicy, authors: tuple[str, ...], settings: Mapping[str, Any]) -> ApprovalPolicy:
    """Return the policy for a change by these authors, who cannot approve it.

    authors: () if no separate approver is needed, or if they are unknown; settings: the spec of the Stack. If other objects
    are part of the definition, users who change those are authors as well, and unknown.
    """
    if not authors:
        return policy
    is_complete = not any(settings.get(key) for key in ("templateRef", "templateRefs", "parametersFrom"))
    return dataclasses.replace(policy, is_separate=True, authors=authors if is_complete else ())


def is_by(spec: Mapping[str, Any], policy: ApprovalPolicy) -> bool:
    """Return whether a genuine plan has the authors of the present change. Others of them may approve it."""
    planned = bool(spec.get("separateApprover")), tuple(spec.get("authors") or ())
    return planned == (policy.is_separate, policy.authors)


SWITCHED_OFF: Final[Mapping[str, str]] = {
    "off": "switches approvals off: after this change, no change needs an approval",
    "relaxed": "relaxes approvals: after this change, a change without risky steps needs no approval",
    "relaxed-shared": "relaxes approvals: after this change, a change without risky steps needs no approval, and authors can "
    "approve their own changes",
    "shared": "switches the separate approver off: after this change, authors can approve their own changes",
}
"""The note of a plan about what else the change switches off."""


def make_spec(
    stack: Mapping[str, str],
    identity: ChangeIdentity,
    change: PreviewedChange,
    policy: ApprovalPolicy,
    *,
    namespace: str,
) -> Object:
    """Return the spec of a plan. stack: kind, name and UID."""
    switched_off = SWITCHED_OFF.get(read_switch(identity.definition_hash))
    # First, so that no user misses it.
    notes = [*([switched_off] if switched_off else []), *change.notes][: limits.PLAN_NOTES]
    spec: Object = {
        "stackRef": dict(stack),
        "definitionHash": identity.definition_hash,
        "baseRevision": identity.base_revision,
        "previousPlan": identity.previous_plan,
        "validFor": policy.valid_for,
        "steps": list(change.steps),
        **({"separateApprover": True} if policy.is_separate else {}),
        **({"authors": list(policy.authors)} if policy.authors else {}),
        **({"undo": change.undo} if change.undo else {}),
        **({"unknown": list(change.unknown)} if change.unknown else {}),
        **({"notes": notes} if notes else {}),
    }
    return {**spec, "digest": find_digest(namespace, spec)}


def read_switch(definition_hash: str) -> str:
    """Return which rule about approvals the change of that name switches off, a key of `SWITCHED_OFF`; "" for none."""
    last = definition_hash.rpartition("/")[2]
    return last if last in SWITCHED_OFF else ""


def needs_approval(spec: Mapping[str, Any], policy: ApprovalPolicy) -> bool:
    """Return whether a user must approve a genuine plan. A plan that relaxes the rules themselves always needs it."""
    is_risky = any(step.get("risky") for step in spec["steps"])
    return not policy.is_for_risks or is_risky or bool(read_switch(spec["definitionHash"]))


def find_digest(namespace: str, spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 over the content of a plan in that namespace. It ignores a digest in the content."""
    content = {key: value for key, value in spec.items() if key != "digest"}
    return hashlib.sha256(keyed_hash.canonical([namespace, content])).hexdigest()


def sign_plan(namespace: str, name: str, spec: Mapping[str, Any], *, signer: Signer) -> str:
    """Return the signature of a plan with a correct digest."""
    return signer.sign(PURPOSE, [namespace, name, spec["stackRef"]["uid"], spec["digest"]])


def is_genuine(namespace: str, name: str, spec: Mapping[str, Any], signature: str, *, signatures: Signatures) -> bool:
    """Return whether the operator made this plan, for this namespace, name and Stack, with exactly this content.

    spec: of any shape.
    """
    reference, digest = spec.get("stackRef"), spec.get("digest")
    uid = reference.get("uid") if isinstance(reference, dict) else None
    if not isinstance(uid, str) or not isinstance(digest, str) or len(signature) > limits.SIGNATURE_LENGTH:
        return False
    # The signature first: the digest of a forged plan may take long.
    if not signatures.is_signed(PURPOSE, [namespace, name, uid, digest], signature):
        return False
    return find_digest(namespace, spec) == digest


def read_identity(spec: Mapping[str, Any]) -> ChangeIdentity:
    """Return the change that a genuine plan is for."""
    return ChangeIdentity(
        definition_hash=spec["definitionHash"],
        base_revision=spec["baseRevision"],
        previous_plan=spec["previousPlan"],
    )


def is_plan(handled: str) -> bool:
    """Return whether the record of the last approval is the UID of a plan. Other records contain spaces."""
    return bool(handled) and " " not in handled


def find_expiry(
    created_at: str, spec: Mapping[str, Any], *, approved_at: str = "", window: Window | None = None
) -> float:
    """Return when a genuine plan expires, in seconds since the epoch.

    approved_at: when it was approved, "" if it was not; window: when its change may begin. A plan that is approved in time,
    and outside of the window, is valid as long again after the window opens.
    """
    valid = times.parse_duration(spec["validFor"])
    expiry = times.parse_time(created_at) + valid
    if window is None or not approved_at:
        return expiry
    approved = times.parse_time(approved_at)
    if approved >= expiry or window.is_open(approved):
        return expiry
    return max(expiry, window.find_opening(approved) + valid)


def name_change(choice: TargetChoice, hashed: str, *, hashes: Mapping[int, str], switched_off: str = "") -> str:
    """Return what identifies the definition that a choice starts, with what else the change does.

    hashed: of the definition in the spec; hashes: of the stored revisions, by number; switched_off: which
    rule about the approval of later changes ends, "" for none.
    """
    is_of_spec = choice.cause is TargetCause.SPEC
    name = hashed if is_of_spec else hashes.get(choice.revision or EMPTY_REVISION, "empty")
    if not is_of_spec and choice.rollback is not None and choice.rollback.snapshot:
        name += f"/restore-{names.digest(choice.rollback.snapshot)}"
    return f"{name}/{switched_off}" if switched_off else name


def list_versions(versions: Mapping[ObjectRef, str]) -> dict[str, str]:
    """Return the resource versions of sources by their references as text."""
    return {f"{ref.kind}/{ref.namespace}/{ref.name}": version for ref, version in versions.items()}
