"""Executes one step on the cluster, and classifies the response as done or failed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, assert_never

import orjson
import structlog

from hearth.engine import former_stacks, relatives
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import WorkloadCluster
from hearth.engine.relatives import Kin, Objection
from hearth.engine.services import Services
from hearth.engine.writes import apply_preparation, undone_changes
from hearth.engine.writes.set_detachment import Detachment
from hearth.model import child, containers, names, tenancy, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Signatures
from hearth.model.tenancy import Boundary
from hearth.model.text import hidden_texts, redaction
from hearth.model.well_known_kinds import POD, SERVICE_ACCOUNT
from hearth.plan.ownership import adoption, apply_obstacles
from hearth.plan.ownership.adoption import StackMayExist
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.resource import drift, immutable_fields, step_planning
from hearth.plan.retry import api_errors, retry_triggers
from hearth.plan.retry.api_errors import DryRunVerdict
from hearth.plan.retry.backoff import ServerResponse, StepFailure
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state import desired, internal_errors, steps
from hearth.plan.state.steps import (
    Apply,
    CreatePart,
    Delete,
    DeletePart,
    Detach,
    PartStep,
    Release,
    Restart,
    Step,
    Suspend,
    WriteHealthMark,
)
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import OutsidePlan

logger = structlog.get_logger(__name__)

CREATE_ONLY = "1"
"""A resourceVersion that no object has. An apply with it creates the object or fails with 409."""
REASONS: Mapping[type[object], str] = {
    api_errors.InvalidManifest: "Invalid",
    api_errors.MaybeImmutable: "Immutable",
    api_errors.Denied: "Denied",
    api_errors.ApplyConflict: "Conflict",
    api_errors.StaleRead: "Conflict",
    api_errors.ObjectNotFound: "Conflict",
    api_errors.NamespaceNotFound: "NamespaceNotFound",
    api_errors.NamespaceTerminating: "NamespaceTerminating",
    api_errors.KindNotServed: "KindNotServed",
    api_errors.Unavailable: "Unavailable",
    api_errors.BeyondRights: "Forbidden",
}
"""Reason in the status, by error class."""
FORBIDDEN = "Forbidden"
"""Reason of a step that the account of the Stack has no right to."""
OPEN_QUESTION = (
    "; the API server does not report whether it would accept a new object: correct or revert the change, or set "
    "updatePolicy.replace: DeleteFirst on the resource, which deletes the object, and all data in it, before it is "
    "recreated"
)
"""Added to a message about a change that may affect an immutable field."""
FINAL = api_errors.InvalidManifest | api_errors.MaybeImmutable
"""Error classes that only a changed definition resolves."""


@value_class.dataclass(frozen=True, slots=True)
class StepDone:
    """An executed step."""

    child: Child | None
    """The object as written, or None if it was deleted or released, or no longer existed."""
    tolerated: tuple[LostField, ...] = ()
    """Manifest fields left to other field managers."""
    reverted: str = ""
    """The values that a repair reverted, if they were read before it."""
    is_created: bool = False
    """Whether the object did not exist, so that the step created it."""
    note: str = ""
    """Additional information for users, shown in an Event."""


StepResult: TypeAlias = StepDone | StepFailure


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StepExecutor:
    """The executor of one Stack's steps."""

    cluster: WorkloadCluster
    """The cluster as the account of the Stack accesses it."""
    manager: str
    """The field manager of the Stack."""
    may_exist: StackMayExist
    our_signatures: Signatures
    boundary: Boundary
    """The boundary of the Stack. A step beyond it sends no request, even if it was planned."""
    stack_uid: str = ""
    """UID of the Stack whose sensitive values are redacted from messages; "" for none."""
    kin: Kin | None = None
    """The tree of the Stack, whose objects it may take over."""
    former_uids: Callable[[], Collection[str]] = frozenset
    """Returns the UIDs that the Stack had before it was restored from a backup."""

    async def execute_step(self, step: Step) -> StepResult:
        """Execute the step and return its result. Never raises for an API error."""
        _, ref, verb = _subject(step)
        if message := self.boundary.find_denial(ref):
            return StepFailure(reason=tenancy.REASON, message=f"cannot {verb} {ref}: it {message}", is_final=True)
        try:
            return await self._send_safely(step)
        except OutsidePlan as excess:
            message = f"cannot {verb} {ref}: {excess}; it waits until another plan is approved"
            return StepFailure(reason=approved_steps.REASON, message=message, is_outside_plan=True)

    async def _send_safely(self, step: Step) -> StepResult:
        """Send the requests of the step, and classify errors. Raises OutsidePlan."""
        try:
            return await self._send(step)
        except Unreachable as error:
            message = f"cannot reach the API server: {error}; the operator retries"
            return StepFailure(
                reason="Unreachable", message=message, causes=(retry_triggers.SERVER,), server=ServerResponse.SILENT
            )
        except ApiStatusError as refusal:
            # Redact before the message is shortened, because a truncated sensitive value would not be recognized.
            status = hidden_texts.redact_messages(refusal.status, self.stack_uid) if refusal.status else refusal.status
            redacted = ApiStatusError(code=refusal.code, status=status, retry_after=refusal.retry_after)
            result = await self._resolve(redacted, step)
            result = await undone_changes.explain_unrepairable(
                step, result, cluster=self.cluster, boundary=self.boundary
            )
            return self._add_grant(result, step)

    async def _send(self, step: Step) -> StepResult:
        """Send the requests of the step. Raises the errors of the port."""
        match step:
            case Apply():
                refused = await self._refuse_account(step)
                return refused or await self._apply(step)
            case Delete():
                await self.cluster.delete(step.child)
            case Detach():
                done = await Detachment(step, self.cluster, self.boundary).detach()
                return done if isinstance(done, StepFailure) else StepDone(None, note=done)
            case Release():
                # Do this first, because afterward nothing shows which Stack the object came from.
                await self._keep_containers(step.child)
                await self.cluster.release(step.child)
            case WriteHealthMark():
                return StepDone(await self.cluster.mark(step.child, step.reason, mark_id=step.mark_id))
            case Restart():
                return StepDone(await self.cluster.change(step.child.ref, step.patch, kind=step.child.kind))
            case Suspend():
                kind, manager = step.child.kind, names.SUSPEND_FIELD_MANAGER
                return StepDone(await self.cluster.apply(step.manifest, kind=kind, manager=manager, force=True))
            case CreatePart() | DeletePart():
                await self._write_part(step)
            case _:
                assert_never(step)
        return StepDone(None)

    async def _keep_containers(self, released_child: Child) -> None:
        """Note on the Namespace and the CustomResourceDefinition of an object, if the tree has them, that they stay with it.

        The objects of a nested Stack stay with that Stack, which also stays the owner of its own Namespaces.
        """
        if self.kin is None:
            return
        nested = self.kin.find_nested(released_child.uid)
        inside: dict[ObjectRef, ObjectRef] = {}
        for kept_child in (released_child, *(each for uid in nested for each in self.kin.list_children(uid))):
            for ref in containers.find_containers(kept_child.kind, kept_child.namespace):
                inside.setdefault(ref, kept_child.ref)
        for ref, kept in inside.items():
            container = await self._find_container(ref, self.kin)
            if container is None or container.deleting or container.is_retained or container.stack_uid in nested:
                continue
            exactly = {"uid": container.uid, "resourceVersion": str(container.resource_version)}
            patch = {"metadata": {**exactly, "annotations": {names.ANNOTATION_KEEPS: str(kept)}}}
            owner_cluster = self.kin.find_cluster_of(container.stack_uid)
            if owner_cluster is None:
                await self.cluster.change_object(ref, patch, kind=container.kind)
            else:
                await owner_cluster.change(ref, patch, kind=container.kind)

    async def _find_container(self, ref: ObjectRef, kin: Kin) -> Child | None:
        """Return a Namespace or CustomResourceDefinition of the tree, or None if the tree has none with that name."""
        found = kin.find_container(ref)
        if found is not None or kin.is_alone:
            return found
        # The caches do not contain objects of Stacks that another process manages.
        kind = containers.KINDS[ref.kind_key]
        try:
            live = await self.cluster.get(ref, kind=kind)
        except ApiStatusError as error:
            if not (error.is_not_found or error.is_forbidden):
                raise
            return None
        owner = adoption.find_proven_stack(live, ref, self.our_signatures)
        return child.parse_child(live, kind=kind, paths=()) if owner and kin.is_in_family(owner) else None

    async def _write_part(self, step: PartStep) -> None:
        if isinstance(step, CreatePart):
            await self.cluster.create_object(step.manifest, kind=step.kind)
        else:
            await self.cluster.delete_object(step.live, kind=step.kind)

    async def _apply(self, step: Apply) -> StepResult:
        if step.uid is not None:
            return await self._change(step, uid=step.uid)
        if (pod := await apply_preparation.find_ending_pod(step, cluster=self.cluster)) is not None:
            return _await_pod(step, pod)
        try:
            manifest = apply_preparation.with_preconditions(step.sent_manifest, resourceVersion=CREATE_ONLY)
            return StepDone(
                await self.cluster.apply(manifest, kind=step.kind, manager=self.manager, force=False), is_created=True
            )
        except ApiStatusError as error:
            if not isinstance(_classify(error, step), api_errors.StaleRead | api_errors.ApplyConflict):
                raise
        try:
            live = await self.cluster.get(step.ref, kind=step.kind)
        except ApiStatusError as error:
            if not error.is_forbidden or not self.boundary.account:
                raise
            return self._leave_unseen(step)
        owner = adoption.find_proven_stack(live, step.ref, self.our_signatures)
        if owner and owner in self.former_uids():
            # The object was restored from a backup after its Stack.
            return await self._change(
                dataclasses.replace(step, uid=live["metadata"]["uid"]), uid=live["metadata"]["uid"]
            )
        if self.kin is not None and owner and self.kin.is_related(owner):
            return await self._receive(step, live, owner=owner, kin=self.kin)
        return await self._handle_existing(step, live)

    async def _receive(self, step: Apply, live: Object, *, owner: str, kin: Kin) -> StepResult:
        """Take over an object that another Stack of the same tree no longer wants; otherwise do not touch it."""
        metadata = live["metadata"]
        objection = kin.find_objection(owner, live, step.ref)
        if objection is None and "deletionTimestamp" in metadata:
            objection = Objection(
                message="is being deleted; it will be recreated after that object is deleted", is_final=False
            )
        if objection is not None:
            return StepFailure(
                reason=relatives.HANDOVER if not objection.is_final else "NotOwned",
                message=f"{step.ref} exists already and {objection.message}",
                is_final=objection.is_final,
                is_wait=not objection.is_final,
                causes=(retry_triggers.object_trigger(step.kind, step.ref),),
            )
        if (metadata.get("annotations") or {}).get(names.ANNOTATION_ADOPTED) == names.ADOPTED:
            step = dataclasses.replace(step, manifest=desired.with_adopted(step.manifest))
        return StepDone(await apply_preparation.receive(step, live, cluster=self.cluster, manager=self.manager))

    async def _change(self, step: Apply, *, uid: str) -> StepResult:
        """Change an object of the Stack, or one that it adopts."""
        if step.reclaims:
            await apply_preparation.give_up_claims(step, cluster=self.cluster, manager=self.manager)
        if step.owned_before is not None and step.owned_before.api_version not in ("", step.kind.api_version):
            await apply_preparation.remove_other_version(step, cluster=self.cluster, manager=self.manager)
        prepared = await apply_preparation.remove_leaving_fields(step, cluster=self.cluster, manager=self.manager)
        if isinstance(prepared, api_errors.MaybeImmutable):
            return _explain_retention(prepared, step)
        written = await self._empty_maps(prepared) if step.leaves_null else None
        if written is None:
            manifest = apply_preparation.with_preconditions(prepared.sent_manifest, uid=uid)
            written = await self.cluster.apply(manifest, kind=step.kind, manager=self.manager, force=True)
        return StepDone(written, step.tolerated)

    async def _empty_maps(self, step: Apply) -> Child | None:
        """Remove maps that the apply would turn into null, and apply; return None if the apply does no harm or cannot
        be tried.
        """
        try:
            live = await self.cluster.get(step.ref, kind=step.kind)
        except ApiStatusError as error:
            if not error.is_forbidden:
                raise
            return None
        return await apply_preparation.apply_without_obstacle(step, live, cluster=self.cluster, manager=self.manager)

    def _leave_unseen(self, step: Apply) -> StepFailure:
        """Do not touch an existing object that the account cannot get. The message only reports that it exists."""
        rights = RetryTrigger(type=TriggerType.RIGHTS, namespace=step.ref.namespace)
        return StepFailure(
            reason=FORBIDDEN,
            message=f"{step.ref} exists already, but {self.boundary.explain_read_denial(step.kind, step.ref)}",
            causes=(rights, retry_triggers.object_trigger(step.kind, step.ref)),
        )

    async def _handle_existing(self, step: Apply, live: Object) -> StepResult:
        """Handle an existing object with the same name: update one that is or may become a child, otherwise do not touch
        it.
        """
        metadata, manifest = live["metadata"], step.manifest
        annotations = metadata.get("annotations") or {}
        stack_uid = manifest["metadata"]["labels"][names.LABEL_STACK_UID]
        is_ours = adoption.is_child_of(
            live, step.ref, stack_uid=stack_uid, our_signatures=self.our_signatures
        ) or is_taken_up(metadata, step)
        if not is_ours:
            objection = adoption.find_adoption_denial(
                live, ref=step.ref, adopts=step.may_adopt, may_exist=self.may_exist, our_signatures=self.our_signatures
            )
            if objection is not None:
                message = f"{step.ref} exists already and {objection.message}"
                taken = retry_triggers.object_trigger(step.kind, step.ref)
                return StepFailure(
                    reason=objection.reason,
                    message=message,
                    is_final=objection.is_final,
                    # A Stack that may adopt objects wants this very object, so no other name would help.
                    is_name_taken=objection.is_of_stack and step.has_generated_name and not step.may_adopt,
                    causes=(taken,),
                )
        if not is_ours or annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED:
            step = dataclasses.replace(step, manifest=desired.with_adopted(manifest))
        step = dataclasses.replace(step, uid=metadata["uid"])
        if is_ours:
            # The cache did not contain the object, so the owners of its fields are known only now.
            present = child.parse_child(live, kind=step.kind, paths=())
            step = dataclasses.replace(
                step,
                tolerated=drift.check_before_change(present, step).tolerated,
                leaves_null=apply_obstacles.leaves_null(step.manifest, present),
                owned_before=present.ownership if present.hash != step.hash else None,
                reclaims=step_planning.has_claims(present),
            )
            return await self._change(step, uid=metadata["uid"])
        return StepDone(
            await apply_preparation.adopt(step, live, cluster=self.cluster, manager=self.manager), step.tolerated
        )

    async def _resolve(self, error: ApiStatusError, step: Step) -> StepResult:
        """Resolve an API error: send further requests if the answer is unclear, and remove obstacles to an apply."""
        kind, ref, verb = _subject(step)
        right = find_right(step)
        first = reaction = _classify(error, step)
        try:
            if isinstance(reaction, api_errors.NeedsAccessReview):
                is_allowed = await self.cluster.is_allowed(right, kind=kind, namespace=ref.namespace)
                reaction = api_errors.after_access_review(reaction, kind=kind, is_allowed=is_allowed)
            elif isinstance(reaction, api_errors.NeedsDryRun | api_errors.MaybeImmutable) and isinstance(step, Apply):
                outcome = await self._try_change(reaction, step)
                if isinstance(outcome, StepDone | StepFailure):
                    return outcome
                reaction = outcome
            elif isinstance(reaction, api_errors.NeedsDryRun | api_errors.MaybeImmutable) and isinstance(step, Suspend):
                live = await self.cluster.get(ref, kind=kind)
                written = await apply_preparation.suspend_without_obstacle(step, live, cluster=self.cluster)
                if written is not None:
                    return StepDone(written)
            elif isinstance(reaction, api_errors.KindNotServed):
                await self.cluster.refresh_kinds()
        except (ApiStatusError, Unreachable) as unanswered:
            message = (
                f"cannot {verb} {ref}: {reaction.message}; the query for the cause also failed; the operator retries"
            )
            after, server = unanswered.retry_after or 0.0, _judge_server(unanswered)
            return StepFailure(
                reason="Unreachable", message=message, retry_after=after, causes=(retry_triggers.SERVER,), server=server
            )
        return _fail(reaction, error, step, first=first)

    def _add_grant(self, result: StepResult, step: Step) -> StepResult:
        """Add the commands that grant a missing right to the account, if the API server denies it that right."""
        is_denied = isinstance(result, StepFailure) and any(
            cause.type is TriggerType.RIGHTS for cause in result.causes if result.reason == REASONS[api_errors.Denied]
        )
        if not self.boundary.account or not isinstance(result, StepFailure) or not is_denied:
            return result
        kind, ref, _ = _subject(step)
        message = f"{result.message}; to allow it, run: {self.boundary.explain_grant(kind, ref.namespace)}"
        return dataclasses.replace(result, reason=FORBIDDEN, message=message)

    async def _try_change(
        self, refused: api_errors.NeedsDryRun | api_errors.MaybeImmutable, step: Apply
    ) -> api_errors.ErrorClass | StepResult:
        """Find out by dry runs why the API server rejects the apply, and remove an obstacle if there is one."""
        verdict = await self._judge_definition(refused, step)
        is_change = isinstance(refused, api_errors.MaybeImmutable) or step.uid is not None
        if verdict is DryRunVerdict.VALID and not is_change:
            verdict = await self._judge_repetition(step)
        reaction = api_errors.after_dry_run(refused, verdict)
        if verdict in (DryRunVerdict.INVALID, DryRunVerdict.UNANSWERED) or not is_change:
            return reaction
        live = await self.cluster.get(step.ref, kind=step.kind)
        if isinstance(reaction, api_errors.MaybeImmutable):
            # A mere drift repair has no former definition whose defaults could be in the way.
            written = (
                await apply_preparation.apply_without_defaults(step, live, cluster=self.cluster, manager=self.manager)
                if step.owned_before is not None
                else None
            )
            if written is not None:
                return StepDone(written, step.tolerated)
            wanted = apply_obstacles.predict_alone(step.sent_manifest, live)
            if await self._is_immutable(step, wanted, live):
                is_guarded = step.sensitive_texts is not None
                fields = immutable_fields.describe(reaction.fields, wanted, live, is_guarded=is_guarded)
                return dataclasses.replace(reaction, fields=fields)
        if isinstance(refused, api_errors.NeedsDryRun) and await apply_preparation.convert_ownership(
            step, live, cluster=self.cluster
        ):
            return await self._change(step, uid=live["metadata"]["uid"])
        # List items of other owners or an emptied map cause the error, so a replacement would not help.
        written = await apply_preparation.apply_without_obstacle(step, live, cluster=self.cluster, manager=self.manager)
        if written is not None:
            return StepDone(written, step.tolerated)
        return api_errors.Denied(message=reaction.message) if verdict is DryRunVerdict.VALID else reaction

    async def _judge_definition(
        self, refused: api_errors.NeedsDryRun | api_errors.MaybeImmutable, step: Apply
    ) -> DryRunVerdict:
        """Check by dry run whether the API server would accept the definition as a new object with the same name."""
        try:
            await self.cluster.check_definition(step.manifest, kind=step.kind)
        except ApiStatusError as error:
            return api_errors.judge_definition(refused, _classify(error, step))
        return DryRunVerdict.VALID

    async def _judge_repetition(self, step: Apply) -> DryRunVerdict:
        """Judge by a dry run whether the API server refuses to apply a new object, or could only not store it just now."""
        try:
            await self.cluster.apply_dry_run(step.manifest, kind=step.kind, manager=self.manager)
        except ApiStatusError as error:
            return api_errors.judge_repetition(_classify(error, step))
        return DryRunVerdict.UNANSWERED

    async def _is_immutable(self, step: Apply, wanted: Object, live: Object) -> bool:
        """Return whether the API server rejects exactly this change of the object, regardless of other owners' list items.

        wanted: the object after the change.
        """
        change = apply_obstacles.make_patch(apply_obstacles.strip(wanted), apply_obstacles.strip(live))
        try:
            await self.cluster.change_dry_run(step.ref, change, kind=step.kind)
        except ApiStatusError as error:
            return error.code in (400, 422)
        return False

    async def _refuse_account(self, step: Apply) -> StepFailure | None:
        """Explain why the account of the parent is not allowed to apply this nested Stack. Returns None if it is
        allowed.

        Without this check, a Stack could use a nested Stack for writes that its own account is not allowed to make. A
        user of an account can impersonate it, or create Pods that run as it.
        """
        named, namespace = find_account(step), step.ref.namespace
        if (
            not self.boundary.account
            or not named
            or (namespace, named) == (self.boundary.account_namespace, self.boundary.account)
        ):
            return None
        if await self.cluster.is_allowed("impersonate", kind=SERVICE_ACCOUNT, namespace=namespace, name=named):
            return None
        if await self.cluster.is_allowed("create", kind=POD, namespace=namespace):
            return None
        account = self.boundary.account
        grant = tenancy.write_grant(
            self.boundary.subject,
            "impersonate",
            SERVICE_ACCOUNT.plural,
            role=f"{account}-as-{named}",
            namespace=namespace,
            name=named,
        )
        message = (
            f"cannot apply {step.ref}: it refers to ServiceAccount {named}, which ServiceAccount {account} cannot "
            "use; to "
            f"allow it, run: {grant}"
        )
        return StepFailure(
            reason=FORBIDDEN, message=message, causes=(RetryTrigger(type=TriggerType.RIGHTS, namespace=namespace),)
        )


def make_executor(stack: StackObject, services: Services) -> StepExecutor:
    """Make the executor of the steps of a Stack."""
    boundary = services.find_boundary(stack)
    return StepExecutor(
        cluster=services.find_link(stack.uid).cluster.acting_as(boundary.user),
        manager=names.field_manager(stack.namespace, stack.name, kind=stack.kind),
        may_exist=services.may_exist_for(stack.uid),
        our_signatures=services.hashes,
        stack_uid=stack.uid,
        boundary=boundary,
        kin=Kin(stack.uid, services),
        former_uids=functools.partial(former_stacks.find_former_uids, services, stack),
    )


def make_part_executor(
    stack_uid: str, *, cluster: WorkloadCluster, boundary: Boundary, services: Services
) -> StepExecutor:
    """Make the executor of steps for parts of a Stack that may no longer exist.

    cluster: the cluster as the account accesses it.
    """
    return StepExecutor(
        cluster=cluster,
        manager="",
        may_exist=services.may_exist_for(stack_uid),
        our_signatures=services.hashes,
        stack_uid=stack_uid,
        boundary=boundary,
    )


def explain_internal_error(step: Step) -> StepResult:
    """Return the result of a step that raised an unexpected exception."""
    _, ref, verb = _subject(step)
    return internal_errors.internal_failure(f"{verb} {ref}")


def _explain_retention(maybe_immutable: api_errors.MaybeImmutable, step: Apply) -> StepFailure:
    """Return the failure of an apply after which the object would not have its definition."""
    message, fields = (
        redaction.redact(text, step.sensitive_texts or ())
        for text in (maybe_immutable.message, ", ".join(maybe_immutable.fields))
    )
    return StepFailure(
        reason=REASONS[api_errors.MaybeImmutable],
        message=f"cannot apply {step.ref}: {message}",
        is_final=True,
        immutable=fields,
    )


def is_taken_up(metadata: Mapping[str, Any], step: Apply) -> bool:
    """Return whether the object is the unsigned one that the step takes over, still labeled by the operator."""
    return metadata["uid"] == step.reclaims_uid and child.is_labelled(metadata)


def _fail(
    reaction: api_errors.ErrorClass, error: ApiStatusError, step: Step, *, first: api_errors.ErrorClass
) -> StepFailure:
    """Return the failure of a step. first: the first reading of the error, before the search for its cause."""
    kind, ref, verb = _subject(step)
    immutable = reaction if isinstance(reaction, api_errors.MaybeImmutable) else None
    is_open = immutable is not None and not immutable.is_proven
    return StepFailure(
        reason=REASONS.get(type(reaction), "Rejected"),
        message=f"cannot {verb} {ref}: {reaction.message}{OPEN_QUESTION if is_open else ''}",
        is_final=isinstance(reaction, FINAL),
        # The requested delay of the API server counts in any case.
        retry_after=max(error.retry_after or 0.0, _find_delay(reaction)),
        immutable=", ".join(immutable.fields) if immutable is not None else "",
        is_proven=not is_open,
        causes=retry_triggers.find_triggers(first, reaction, code=error.code, kind=kind, ref=ref),
        server=_judge_server(error),
        code=error.code,
        # The namespace is ending, or its owner has to act. Other work of the Stack must not be delayed by that.
        is_wait=isinstance(reaction, api_errors.NamespaceTerminating),
    )


def _find_delay(reaction: api_errors.ErrorClass) -> float:
    """Return the seconds that the API server asks to wait in its `Status`; 0 for none."""
    return reaction.after or 0.0 if isinstance(reaction, api_errors.Unavailable) else 0.0


def _judge_server(error: ApiStatusError | Unreachable) -> ServerResponse:
    """Classify the state of the API server itself."""
    if isinstance(error, Unreachable):
        return ServerResponse.SILENT
    is_busy = api_errors.is_throttled(error.code, error.status, after=error.retry_after)
    return ServerResponse.BUSY if is_busy else ServerResponse.ANSWERS


def _subject(step: Step) -> tuple[Kind, ObjectRef, str]:
    """Return kind and reference of the object that a step writes, and the verb."""
    return steps.find_kind(step), steps.find_ref(step), _find_verb(step)


def _find_verb(step: Step) -> str:
    match step:
        case Apply():
            return "apply"
        case Delete() | DeletePart():
            return "delete"
        case Detach():
            return "replace"
        case Release():
            return "release"
        case WriteHealthMark():
            return "mark"
        case Restart():
            return "restart the Pods of"
        case Suspend():
            return str(step.purpose)
        case CreatePart():
            return "create"
        case _:
            assert_never(step)


def find_right(step: Step) -> str:
    """Return the verb of the right that the step needs."""
    if isinstance(step, CreatePart):
        return "create"
    return "delete" if isinstance(step, Delete | Detach | DeletePart) else "patch"


def _await_pod(step: Apply, pod: str) -> StepFailure:
    """Return that the object is created once a Pod of its claim is deleted."""
    ref = ObjectRef(group="", kind=POD.name, namespace=step.ref.namespace, name=pod)
    return StepFailure(
        reason="PodsTerminating",
        message=f"{step.ref} will be created after {ref}, which mounts the same claim, has stopped",
        is_wait=True,
        causes=(retry_triggers.object_trigger(POD, ref),),
    )


def _classify(error: ApiStatusError, step: Step) -> api_errors.ErrorClass:
    size = len(orjson.dumps(step.manifest)) if isinstance(step, Apply) else 0
    hidden = step.sensitive_texts if isinstance(step, Apply) else None
    return api_errors.classify(error.code, error.status, kind=_subject(step)[0], body_size=size, hidden=hidden)


def find_account(step: Apply) -> str:
    """Return the ServiceAccount that a nested Stack names; "" for none, and for any other object."""
    if not names.is_stack(step.kind.group, step.kind.name):
        return ""
    spec = step.manifest.get("spec")
    named = spec.get("serviceAccountName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) else ""
