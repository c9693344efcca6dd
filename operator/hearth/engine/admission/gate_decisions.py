"""Admission review of StackDefinitions with gates: whether the user may approve or reject a gate, and the stamp that proves
it.

This is the only place that creates stamps of gates. Any doubt denies the write. It also protects the gates themselves: a
user without the verb `approve` cannot change `spec.rollout`, and a user with only `patch`, which approvals need, cannot
change the spec.
"""

from __future__ import annotations

from collections.abc import Mapping

from hearth.engine.admission import review as review_module
from hearth.engine.admission.plan_decisions import (
    REQUESTS,
    VERB,
    AccessReviews,
    deny,
    deny_several,
    find_operator_denial,
    list_annotations,
    list_requests,
    replace_requests,
)
from hearth.engine.admission.review import ALLOWED, Author, Review, ReviewResult
from hearth.model import approvals, names, object_fields, tenancy, value_class
from hearth.model.approvals import Approval, Decision
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.rollouts import rollout_gates
from hearth.plan.rollouts.rollout_decision import RolloutPhase

RESOURCE = "stackdefinitions"
STAMPS = names.ANNOTATION_APPROVALS
OPEN = (RolloutPhase.PROGRESSING, RolloutPhase.PAUSED)
"""Phases of rollouts that need decisions. The engine decides whether a stamp counts."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """Checks decisions about gates, and changes of the gates."""

    access: AccessReviews
    hashes: HashFunction
    operator_namespace: str

    async def review(self, review: Review, *, now: float) -> ReviewResult:
        """Return the stamps that take the place of the request in a write of a StackDefinition. now: seconds since the
        epoch.
        """
        if review.old is None:
            return drop_decisions(review)
        before, after = list_annotations(review.old), list_annotations(review.new)
        if after.get(STAMPS, "") not in ("", before.get(STAMPS, "")):
            return deny(
                f"{STAMPS}: only the operator sets it; to decide about a gate, set {names.REQUEST_APPROVE} or "
                f"{names.REQUEST_REJECT} to the digest of the gate"
            )
        denials = [each for each in (await self._find_spec_denial(review, review.old),) if each]
        requested = list_requests(before, after)
        result = ALLOWED
        match requested:
            case []:
                pass
            case [key]:
                result = await self._decide(review, review.old, key=key, now=now)
            case _:
                result = deny_several(requested)
        denials += [result.denial] if result.denial else []
        if denials:
            return deny("; ".join(denials))
        if before.get(STAMPS) and STAMPS not in result.annotations and after.get(STAMPS) != before[STAMPS]:
            # A write of the whole object, for example `kubectl replace`, does not withdraw approvals.
            return ReviewResult(annotations={**result.annotations, STAMPS: before[STAMPS]}, warnings=result.warnings)
        return result

    async def _decide(self, review: Review, old: Object, *, key: str, now: float) -> ReviewResult:
        """Review one request. key: its annotation."""
        decision, request = REQUESTS[key], approvals.parse_request(list_annotations(review.new)[key])
        listed = object_fields.entries(old, "status", "rollout", "gates")
        digests = [object_fields.text(each, "digest") for each in listed]
        digest = next((each for each in digests if request.matches_digest(each)), "")
        name = object_fields.text(old, "metadata", "name")
        if not digest:
            waiting = describe_gates(listed)
            return deny(
                f"{key}: {request.digest[:100]!r} is not the beginning of the digest of a gate; give at least "
                f"{names.PLAN_DIGITS} digits ({waiting})"
            )
        if object_fields.text(old, "status", "rollout", "phase") not in OPEN:
            return deny(f"{key}: no rollout is in progress; to see the state, run: kubectl stack rollout status {name}")
        subject = rollout_gates.make_subject(name, object_fields.text(old, "metadata", "uid"), digest)
        stamps = {
            each: stamp
            for stamp in rollout_gates.split_stamps(list_annotations(old).get(STAMPS, ""))
            if (each := approvals.find_digest(stamp)) in digests
        }
        approval = approvals.read_approval(stamps.get(digest), subject, signatures=self.hashes)
        if approval is not None and approval.decision is Decision.REJECTED and decision is Decision.APPROVED:
            return deny(
                f"{key}: the gate was rejected by {approval.user} at {approval.time}; correct the definition, or run: "
                f"kubectl stack rollout restart {name}"
            )
        if denial := await self._find_right_denial(review.author, VERB, name, why="to decide about gates"):
            return deny(f"{key}: {denial}")
        if approval is not None and approval.decision is decision:
            already = f"the gate was already {decision} by {approval.user} at {approval.time}"
            return replace_requests(warnings=(already,))
        if review.is_dry_run:
            return replace_requests(warnings=(f"dry run: the gate would be {decision}",))
        made = Approval(decision=decision, user=review.author.name, time=times.format_time(now), reason=request.reason)
        try:
            stamps[digest] = approvals.sign_approval(made, subject, signer=self.hashes)
            text = rollout_gates.join_stamps(stamps.values())
        except ValueError as error:
            return deny(f"{key}: {error}; shorten the reason")
        return replace_requests({STAMPS: text})

    async def _find_spec_denial(self, review: Review, old: Object) -> str:
        """Return why the user may not change the spec of a StackDefinition with gates, or ""."""
        before = review_module.read_spec(old)
        if not object_fields.elements(before, "rollout", "gates") or before == review.spec:
            return ""
        name = object_fields.text(old, "metadata", "name")
        denials = [await self._find_right_denial(review.author, "update", name, why="to change a spec with gates")]
        if before.get("rollout") != review.spec.get("rollout"):
            why = "to change spec.rollout, which has gates"
            denials.append(await self._find_right_denial(review.author, VERB, name, why=why))
        return "; ".join(f"spec: {each}" for each in denials if each)

    async def _find_right_denial(self, author: Author, verb: str, name: str, *, why: str) -> str:
        """Return why the user lacks that verb on the StackDefinition, or ""."""
        if verb == VERB and (denial := find_operator_denial(author, self.operator_namespace)):
            return denial
        if await self.access.may(author, verb, RESOURCE, namespace="", name=name, group=names.GROUP):
            return ""
        resource = f"{RESOURCE}.{names.GROUP}"
        grant = tenancy.write_grant(
            author.subject, f"get,patch,{verb}", resource, role=f"rollout-{verb}", namespace="", name=name
        )
        return f"user {author.name} lacks the verb {verb} on {resource} {why}; to allow it, run: {grant}"


def describe_gates(listed: list[Mapping[str, object]]) -> str:
    """Return the gates that wait, with the digits that name them. listed: those in the status."""
    waiting = [
        f"{object_fields.text(each, 'name')}: {object_fields.text(each, 'digest')[: names.PLAN_DIGITS]}"
        for each in listed
        if object_fields.text(each, "state") == rollout_gates.GateState.WAITING
    ]
    return f"waiting: {', '.join(waiting)}" if waiting else "no gate waits"


def drop_decisions(review: Review) -> ReviewResult:
    """Remove all decisions from a new StackDefinition, for example one from a backup: they are not valid for it."""
    found = [key for key in (*REQUESTS, STAMPS) if key in list_annotations(review.new)]
    if not found:
        return ALLOWED
    warning = f"{', '.join(found)}: removed, because a gate can be approved only while its rollout waits"
    return replace_requests({STAMPS: None}, warnings=(warning,))
