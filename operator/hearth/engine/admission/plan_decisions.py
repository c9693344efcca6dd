"""Admission review of StackPlans: whether the user may approve or reject the plan, and the stamp that proves it.

This is the only place that creates stamps of plans. Unlike in other reviews, any doubt denies the write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hearth.engine.admission.review import ALLOWED, Author, Review, ReviewResult
from hearth.model import approvals, names, object_fields, tenancy, value_class
from hearth.model.approvals import Approval, ApprovalSubject, Decision
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.target import change_plans

VERB = "approve"
"""The RBAC verb that a decision needs, in both directions."""
RESOURCE = "stackplans"
REQUESTS: Mapping[str, Decision] = {
    names.REQUEST_APPROVE: Decision.APPROVED,
    names.REQUEST_REJECT: Decision.REJECTED,
}
"""The annotations with which a user decides. The stamp takes their place."""
OVER = ("Running", "Completed", "Failed", "Superseded", "Expired")
"""Phases without a decision. Anyone who can write the status can pretend one; the engine decides whether a stamp counts."""


class AccessReviews(Protocol):
    """Questions about the rights of other users."""

    async def may(
        self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "", group: str = ""
    ) -> bool:
        """Return whether the user may do that. group: "" for the core API group. Raises `ApiStatusError` or
        `Unreachable`.
        """


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCheck:
    """Checks decisions about plans, and signs them."""

    access: AccessReviews
    hashes: HashFunction
    operator_namespace: str

    async def review(self, review: Review, *, now: float) -> ReviewResult:
        """Return the stamp that takes the place of the request in a write of a StackPlan. now: seconds since the epoch."""
        if review.old is None:
            return drop_decisions(review)
        before, after = list_annotations(review.old), list_annotations(review.new)
        if before.get(names.ANNOTATION_APPROVAL) != after.get(names.ANNOTATION_APPROVAL):
            return deny(
                f"{names.ANNOTATION_APPROVAL}: only the operator sets or removes it; to decide, set "
                f"{names.REQUEST_APPROVE} or {names.REQUEST_REJECT} to the digest of the plan"
            )
        requested = list_requests(before, after)
        match requested:
            case []:
                return ALLOWED
            case [key]:
                return await self._decide(review, review.old, key=key, now=now)
            case _:
                return deny_several(requested)

    async def _decide(self, review: Review, old: Object, *, key: str, now: float) -> ReviewResult:
        """Review one request. key: its annotation."""
        decision, subject = REQUESTS[key], identify_plan(old)
        request = approvals.parse_request(list_annotations(review.new)[key])
        approval = approvals.read_approval(
            list_annotations(old).get(names.ANNOTATION_APPROVAL), subject, signatures=self.hashes
        )
        if not self._is_genuine(old, subject):
            return deny(
                f"{key}: the operator did not create this plan, or its content was changed; to see the plan of the Stack, "
                f"run: kubectl stack plan {find_place(old)}"
            )
        if not request.matches_digest(subject.digest):
            return deny(
                f"{key}: {request.digest[:100]!r} is not the beginning of the plan's digest "
                f"{subject.digest[: names.PLAN_DIGITS]}…; give at least {names.PLAN_DIGITS} digits"
            )
        denial = find_state_denial(old, decision, approval) or await self._find_user_denial(
            review.author, old, decision
        )
        if denial:
            return deny(f"{key}: {denial}")
        if approval is not None and approval.decision is decision:
            already = f"the plan was already {decision} by {approval.user} at {approval.time}"
            return replace_requests(warnings=(already,))
        if review.is_dry_run:
            return replace_requests(warnings=(f"dry run: the plan would be {decision}",))
        made = Approval(decision=decision, user=review.author.name, time=times.format_time(now), reason=request.reason)
        try:
            stamp = approvals.sign_approval(made, subject, signer=self.hashes)
        except ValueError as error:
            return deny(f"{key}: {error}; shorten the reason")
        return replace_requests({names.ANNOTATION_APPROVAL: stamp})

    def _is_genuine(self, old: Object, subject: ApprovalSubject) -> bool:
        signature = list_annotations(old).get(names.ANNOTATION_SIGNATURE, "")
        spec = object_fields.mapping(old, "spec")
        return change_plans.is_genuine(subject.namespace, subject.name, spec, signature, signatures=self.hashes)

    async def _find_user_denial(self, author: Author, old: Object, decision: Decision) -> str:
        """Return why this user cannot decide, or ""."""
        subject = identify_plan(old)
        if denial := find_operator_denial(author, self.operator_namespace):
            return denial
        separate = find_author_denial(old, author) if decision is Decision.APPROVED else ""
        if separate:
            return separate
        if await self.access.may(
            author, VERB, RESOURCE, namespace=subject.namespace, name=subject.name, group=names.GROUP
        ):
            return ""
        resource = f"{RESOURCE}.{names.GROUP}"
        grant = tenancy.write_grant(
            author.subject, f"get,patch,{VERB}", resource, role="plan-approver", namespace=subject.namespace
        )
        return (
            f"user {author.name} lacks the verb {VERB} on {resource} in namespace {subject.namespace}; to allow it, run: "
            f"{grant}"
        )


def find_operator_denial(author: Author, operator_namespace: str) -> str:
    """Return why a ServiceAccount of the operator's namespace cannot decide; "" for other users.

    A template can contain an object with the annotation of a decision, and the operator would apply it with its own
    rights.
    """
    if not author.name.startswith(f"system:serviceaccount:{operator_namespace}:"):
        return ""
    return f"{author.name} is a ServiceAccount in the operator's namespace, whose rights Stacks use; decide as another user"


def find_state_denial(old: Object, decision: Decision, approval: Approval | None) -> str:
    """Return why the plan is no longer open for this decision, or ""."""
    phase = object_fields.text(old, "status", "phase")
    place = find_place(old)
    if phase in OVER:
        return f"the plan is {phase}; to see the present one, run: kubectl stack plan {place}"
    is_final = approval is not None and approval.decision is Decision.REJECTED
    if approval is not None and is_final and decision is Decision.APPROVED:
        return (
            f"the plan was rejected by {approval.user} at {approval.time}; change the Stack, or request another plan: "
            f"kubectl stack retry {place}"
        )
    return ""


def find_place(old: Object) -> str:
    """Return the Stack of a plan as arguments of a command."""
    stack, namespace = (
        object_fields.text(old, "spec", "stackRef", "name"),
        object_fields.text(old, "metadata", "namespace"),
    )
    return f"{stack} -n {namespace}"


def find_author_denial(old: Object, author: Author) -> str:
    """Return why the author of a change cannot approve it, or ""."""
    if object_fields.find(old, "spec", "separateApprover") is not True:
        return ""
    authors = object_fields.texts(old, "spec", "authors")
    if not authors:
        return (
            "the authors of the change are unknown, so no user can approve it (spec.approval.separateApprover); restore the "
            "running definition in the spec, and then change it again"
        )
    if author.name in authors:
        return f"user {author.name} wrote the change (spec.approval.separateApprover); ask another user to approve it"
    return ""


def drop_decisions(review: Review) -> ReviewResult:
    """Remove all decisions from a new plan, for example one from a backup: a stamp is not valid for another object."""
    found = [key for key in (*REQUESTS, names.ANNOTATION_APPROVAL) if key in list_annotations(review.new)]
    warning = f"{', '.join(found)}: removed, because a plan can be approved only after it was created"
    return replace_requests({names.ANNOTATION_APPROVAL: None}, warnings=(warning,) if found else ())


def identify_plan(raw: Object) -> ApprovalSubject:
    """Return the identity of a stored plan."""
    namespace, name, uid = (object_fields.text(raw, "metadata", key) for key in ("namespace", "name", "uid"))
    return ApprovalSubject(namespace=namespace, name=name, uid=uid, digest=object_fields.text(raw, "spec", "digest"))


def list_requests(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the annotations of requests that a write adds or changes. before, after: all annotations."""
    return [key for key in REQUESTS if after.get(key) and after[key] != before.get(key)]


def deny_several(requested: Sequence[str]) -> ReviewResult:
    """Return the denial of a write with more than one request."""
    return deny(f"{' and '.join(requested)} are set at once; set one of them")


def list_annotations(raw: Object) -> Mapping[str, str]:
    """Return the annotations with a text."""
    found = object_fields.mapping(raw, "metadata", "annotations")
    return {key: value for key, value in found.items() if isinstance(value, str)}


def replace_requests(annotations: Mapping[str, Any] | None = None, *, warnings: tuple[str, ...] = ()) -> ReviewResult:
    """Return a result that removes the requests and sets these annotations."""
    return ReviewResult(annotations={**dict.fromkeys(REQUESTS), **(annotations or {})}, warnings=warnings)


def deny(text: str) -> ReviewResult:
    """Return a denial."""
    return ReviewResult(denial=text)
