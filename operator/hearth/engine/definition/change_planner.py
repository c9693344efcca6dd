"""Finds the approval of a change of one Stack, and makes the StackPlan that a user can approve.

Nothing here starts a change: it returns either the approved plan, or why the change waits. Every doubt is a reason to
wait.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
import structlog

from hearth import answers, supervision
from hearth.engine.cluster_objects import StackObject, StackPlanObject
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope
from hearth.model import approvals, limits, names, retry_delays, spec_authors
from hearth.model.approvals import Approval, ApprovalSubject, Decision
from hearth.model.child import Object
from hearth.model.errors import HearthError
from hearth.model.text import times
from hearth.model.well_known_kinds import STACK_PLAN
from hearth.plan.status import plan_status
from hearth.plan.target import change_plans
from hearth.plan.target.change_hold import ChangeHold, HoldReason
from hearth.plan.target.change_plans import ApprovalPolicy, ChangeIdentity, PlanPhase, PreviewedChange

logger = structlog.get_logger(__name__)

IN_PREVIEW = "its plan is being made"


@dataclass(slots=True, eq=False)
class ChangePlanner:
    """The plans of one Stack."""

    uid: str
    services: Services
    _job: asyncio.Task[None] | None = None
    """The preview in progress."""
    _identity: ChangeIdentity | None = None
    """The change of `_outcome`, or of the preview in progress."""
    _outcome: PreviewedChange | str | None = field(default=None, repr=False)
    """The preview of the change, or why it failed; None while it is in progress."""
    _failed_at: float = 0.0
    """Seconds since the epoch."""
    _has_outcome_news: bool = False
    _seen: Sequence[tuple[str, int]] = ()
    """UID and version of each plan at the last look."""

    def close(self) -> None:
        """Stop the preview in progress."""
        if self._job is not None:
            self._job.cancel()
        self._job = self._identity = self._outcome = None

    def has_news(self, stack: StackObject) -> bool:
        """Return whether a plan changed, or a preview ended, since the last look."""
        return self._has_outcome_news or self._list_versions(stack) != self._seen

    def look(self, stack: StackObject) -> None:
        """Note the present plans: only a later change is news, even if the sync that begins now does not read them."""
        self._has_outcome_news = False
        self._seen = self._list_versions(stack)

    async def find_approval(
        self,
        stack: StackObject,
        identity: ChangeIdentity,
        policy: ApprovalPolicy,
        *,
        sources: Mapping[str, str],
        renews: bool,
        is_addition: bool,
    ) -> ChangeHold | StackPlanObject:
        """Return the approved plan of a change, or why the change waits. Raises ApiStatusError and Unreachable.

        sources: the resource versions of the sources of the definition; renews: whether the user requests another plan
        in place of one that expired or was rejected; is_addition: whether the change runs, and a step is outside of its
        plan. Then a user must approve the next one in any case, because the preview did not foresee that step.
        """
        policy = self._add_authors(stack, policy)
        if is_addition:
            policy = dataclasses.replace(policy, is_for_risks=False)
        if not self.services.plans.is_synced:
            # The list may be denied, so look again only after a while.
            self._seen = self._list_versions(stack)
            problem = "the operator has not listed the StackPlans yet; it needs the right to do so"
            return self._hold(problem, retry_at=self.services.clock.now() + retry_delays.PLANS.first)
        plan = await self._find_plan(stack, identity, policy, renews=renews)
        if plan is not None:
            found = await self._judge(stack, plan, policy)
        else:
            found = await self._make_plan(stack, identity, policy, sources, is_addition=is_addition)
        self._seen = self._list_versions(stack)
        return found

    async def close_plans(self, stack: StackObject, *, running: str, kept_identity: ChangeIdentity | None) -> None:
        """Mark plans as superseded, because no change waits for them any longer.

        running: UID of the last plan that ran; kept_identity: the change in progress, which may need its next plan after a
        restart, None if no change is in progress.
        """
        for plan in list(self.services.plans.plans_of(stack.namespace, self.uid)):
            is_over = plan.uid == running or plan.status.get("phase") in change_plans.ENDED
            if is_over or not self._is_genuine(plan) or change_plans.read_identity(plan.spec) == kept_identity:
                continue
            await self._write_phase(
                plan, PlanPhase.SUPERSEDED, "the change was taken back, or needs no plan any longer"
            )

    async def note_phase(self, stack: StackObject, plan_uid: str, phase: PlanPhase, message: str) -> None:
        """Write the state of a plan for people; nothing depends on it."""
        plan = self.find_plan(stack, plan_uid)
        if plan is not None and plan.status.get("phase") != phase:
            await self._write_phase(plan, phase, message)

    def find_plan(self, stack: StackObject, plan_uid: str) -> StackPlanObject | None:
        """Return the genuine plan of the Stack with that UID, or None if it no longer exists."""
        return next((plan for plan in self._list_genuine(stack) if plan.uid == plan_uid), None)

    def find_approved(
        self, stack: StackObject, identity: ChangeIdentity, policy: ApprovalPolicy
    ) -> StackPlanObject | None:
        """Return the plan of a change that may start, or None. Unlike `find_approval`, it makes no plan."""
        for plan in self._list_genuine(stack):
            is_over = plan.status.get("phase") == PlanPhase.SUPERSEDED or not self._is_open(plan, policy)
            is_of_change = change_plans.read_identity(plan.spec) == identity
            if is_of_change and not is_over and self._find_start(plan, policy, self._read_approval(plan)):
                return plan
        return None

    def _list_versions(self, stack: StackObject) -> Sequence[tuple[str, int]]:
        plans = self.services.plans.plans_of(stack.namespace, self.uid)
        return sorted((plan.uid, plan.resource_version) for plan in plans)

    def _list_genuine(self, stack: StackObject) -> list[StackPlanObject]:
        """Return the plans that the operator made for this Stack, the newest last."""
        found = filter(self._is_genuine, self.services.plans.plans_of(stack.namespace, self.uid))
        return sorted(found, key=lambda plan: (plan.created_at, plan.name))

    def _is_genuine(self, plan: StackPlanObject) -> bool:
        return change_plans.is_genuine(
            plan.namespace, plan.name, plan.spec, plan.signature, signatures=self.services.hashes
        )

    def _add_authors(self, stack: StackObject, policy: ApprovalPolicy) -> ApprovalPolicy:
        """Return the policy with the authors of the spec. They are recorded only if they cannot approve the change."""
        stamp = stack.annotations.get(names.ANNOTATION_AUTHORS, "")
        if not stamp:
            return policy
        metadata = {"namespace": stack.namespace, "name": stack.name}
        authors = spec_authors.read_authors(stamp, metadata, stack.spec, signatures=self.services.hashes)
        return change_plans.add_authors(policy, authors, stack.settings)

    async def _find_plan(
        self, stack: StackObject, identity: ChangeIdentity, policy: ApprovalPolicy, *, renews: bool
    ) -> StackPlanObject | None:
        """Return the plan of the change, and mark the plans of other changes as superseded."""
        plan = None
        others = []
        for each in self._list_genuine(stack):
            if change_plans.read_identity(each.spec) == identity and change_plans.is_by(each.spec, policy):
                plan = each
            elif each.uid != identity.previous_plan:
                # The last plan that ran is not superseded: it may still run.
                others.append(each)
        for each in others:
            if each.status.get("phase") not in change_plans.ENDED:
                await self._write_phase(each, PlanPhase.SUPERSEDED, "another change took the place of this one")
        for each in others[: -change_plans.KEPT]:
            await self.services.plans.delete_plan(each)
        # An approval of a change that was taken back does not count when the change returns.
        is_over = plan is not None and plan.status.get("phase") == PlanPhase.SUPERSEDED
        if plan is not None and (is_over or (renews and not self._is_open(plan, policy))):
            await self.services.plans.delete_plan(plan)
            self.close()
            return None
        return plan

    def _read_approval(self, plan: StackPlanObject) -> Approval | None:
        identity = ApprovalSubject(
            namespace=plan.namespace, name=plan.name, uid=plan.uid, digest=str(plan.spec["digest"])
        )
        return approvals.read_approval(plan.approval, identity, signatures=self.services.hashes)

    def _is_open(self, plan: StackPlanObject, policy: ApprovalPolicy) -> bool:
        """Return whether the plan can still be approved, or is approved and may begin."""
        approval = self._read_approval(plan)
        is_rejected = approval is not None and approval.decision is Decision.REJECTED
        return not is_rejected and self._find_expiry(plan, policy, approval) > self.services.clock.now()

    def _find_start(self, plan: StackPlanObject, policy: ApprovalPolicy, approval: Approval | None) -> str:
        """Return since when the change may start, as RFC 3339; "" if it waits for an approval, or was rejected."""
        if approval is None:
            return "" if change_plans.needs_approval(plan.spec, policy) else plan.created_at
        return approval.time if approval.decision is Decision.APPROVED else ""

    def _find_expiry(self, plan: StackPlanObject, policy: ApprovalPolicy, approval: Approval | None) -> float:
        start = self._find_start(plan, policy, approval)
        return change_plans.find_expiry(plan.created_at, plan.spec, approved_at=start, window=policy.window)

    async def _judge(
        self, stack: StackObject, plan: StackPlanObject, policy: ApprovalPolicy
    ) -> ChangeHold | StackPlanObject:
        """Return the plan if it is approved, otherwise why the change waits."""
        approval, now = self._read_approval(plan), self.services.clock.now()
        expiry = self._find_expiry(plan, policy, approval)
        if approval is not None and approval.decision is Decision.REJECTED:
            message = plan_status.describe_rejection(stack, plan.name, approval)
            return await self._report(plan, PlanPhase.REJECTED, message, expiry=expiry)
        if expiry <= now:
            message = plan_status.describe_expiry(stack, plan.name, expiry)
            return await self._report(plan, PlanPhase.EXPIRED, message, expiry=expiry)
        if self._find_start(plan, policy, approval):
            if policy.window is not None and not policy.window.is_open(now):
                await self._report(plan, PlanPhase.APPROVED, "the change waits for its window", expiry=expiry)
            return plan
        message = plan_status.describe_wait(
            stack,
            plan.name,
            digest=str(plan.spec["digest"]),
            expiry=expiry,
            is_approvable=self.services.plans.is_approvable,
        )
        return await self._report(plan, PlanPhase.PENDING, message, expiry=expiry, until=expiry)

    async def _report(
        self, plan: StackPlanObject, phase: PlanPhase, message: str, *, expiry: float, until: float = math.inf
    ) -> ChangeHold:
        """Return the hold, and write the same message to the status of the plan. expiry: when the plan expires."""
        if plan.status.get("phase") != phase:
            await self._write_phase(plan, phase, message, expires_at=times.format_time(expiry))
        pending = plan.name if phase is PlanPhase.PENDING else ""
        return ChangeHold(reason=HoldReason.APPROVAL, until=until, message=message, plan=pending)

    def _hold(self, message: str, *, retry_at: float = math.inf) -> ChangeHold:
        return ChangeHold(reason=HoldReason.APPROVAL, until=math.inf, retry_at=retry_at, message=message)

    async def _make_plan(
        self,
        stack: StackObject,
        identity: ChangeIdentity,
        policy: ApprovalPolicy,
        sources: Mapping[str, str],
        *,
        is_addition: bool,
    ) -> ChangeHold | StackPlanObject:
        """Return why the change waits. Creates its plan as soon as the preview of the change is ready."""
        now = self.services.clock.now()
        retry_at = self._failed_at + retry_delays.PLAN.first
        if self._identity != identity or (isinstance(self._outcome, str) and retry_at <= now):
            self._start_preview(stack, identity)
        outcome = self._outcome
        if outcome is None:
            return self._hold(IN_PREVIEW)
        if isinstance(outcome, str):
            return self._hold(f"it cannot be planned: {outcome}; change the Stack, or wait", retry_at=retry_at)
        if (outcome.generation, outcome.sources) != (stack.generation, dict(sources)):
            # A user changed the Stack or a source meanwhile: the preview may show another definition.
            self._start_preview(stack, identity)
            return self._hold(IN_PREVIEW)
        if is_addition and not outcome.steps:
            self._fail("a step that waits is not in the preview")
            return await self._make_plan(stack, identity, policy, sources, is_addition=is_addition)
        manifest = self._write_plan(stack, identity, outcome, policy)
        if len(orjson.dumps(manifest)) > limits.PLAN_BYTES:
            self._fail(f"the plan takes more than {limits.PLAN_BYTES // 1024} KiB; make a smaller change")
            return await self._make_plan(stack, identity, policy, sources, is_addition=is_addition)
        plan = await self.services.plans.create_plan(manifest)
        if plan is None:
            name = manifest["metadata"]["name"]
            problem = f"StackPlan {name} exists and is not the plan of this change; delete it"
            return self._hold(problem, retry_at=now + retry_delays.PLAN.first)
        return await self._judge(stack, plan, policy)

    def _write_plan(
        self, stack: StackObject, identity: ChangeIdentity, change: PreviewedChange, policy: ApprovalPolicy
    ) -> Object:
        reference = {"kind": stack.kind, "name": stack.name, "uid": self.uid}
        spec = change_plans.make_spec(reference, identity, change, policy, namespace=stack.namespace)
        name = names.stack_plan_name(stack=stack.name, digest=spec["digest"])
        signature = change_plans.sign_plan(stack.namespace, name, spec, signer=self.services.hashes)
        return {
            "apiVersion": STACK_PLAN.api_version,
            "kind": STACK_PLAN.name,
            "metadata": {
                "name": name,
                "namespace": stack.namespace,
                "labels": {names.LABEL_STACK: names.stack_label(stack.name)},
                "annotations": {names.ANNOTATION_SIGNATURE: signature},
                "ownerReferences": [{"apiVersion": stack.api_version, **reference}],
            },
            "spec": spec,
        }

    def _start_preview(self, stack: StackObject, identity: ChangeIdentity) -> None:
        self.close()
        self._identity = identity
        self._job = supervision.spawn(
            "preview of a change",
            lambda: self._preview(stack),
            name=f"preview of {self.uid}",
            on_error=lambda _error: self._fail("the preview had an internal error; see the log of the operator"),
        )

    async def _preview(self, stack: StackObject) -> None:
        try:
            outcome = await self.services.previews.preview(stack)
        except HearthError as error:
            self._fail(str(error))
        else:
            self._finish(outcome)

    def _fail(self, message: str) -> None:
        self._failed_at = self.services.clock.now()
        self._finish(message[: limits.PROBLEM_SHOWN])

    def _finish(self, outcome: PreviewedChange | str) -> None:
        self._outcome, self._has_outcome_news = outcome, True
        self.services.queue.enqueue(self.uid, DirtyScope.STACK)

    async def _write_phase(
        self, plan: StackPlanObject, phase: PlanPhase, message: str, *, expires_at: str = ""
    ) -> None:
        """Write the state of a plan. expires_at: when it expires, "" if that is the same as before."""
        status = plan_status.build_status(
            phase, message, generation=plan.generation, before=plan.status, now=self.services.clock.now()
        )
        if expires_at := expires_at or plan.status.get("expiresAt", ""):
            status["expiresAt"] = expires_at
        error = await answers.find_error(self.services.plans.write_plan_status(plan, status))
        if error is not None:
            logger.warning("cannot write the status of a plan", plan=plan.uid, error=str(error))
