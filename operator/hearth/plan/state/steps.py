"""Steps that change the cluster. The planners return steps and the engine executes them."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias, assert_never

from hearth.model import derived_defaults, field_paths, names, value_class
from hearth.model.child import Child, FieldOwnership, Object, Path
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.environment.environment_rules import Action
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.retry.backoff import (
    ApplyAttempt,
    AttemptId,
    DetachAttempt,
    MarkAttempt,
    RemovalAttempt,
    SuspendAttempt,
    SuspendPurpose,
)
from hearth.plan.retry.step_governor import Work, WorkType


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of the desired definition to one resource's child."""

    resource: str
    kind: Kind
    ref: ObjectRef
    manifest: Object = field(repr=False)
    hash: str
    """Keyed hash of the evaluated definition. Part of the attempt's ID."""
    uid: str | None
    """UID of the object to change, or None if none is known and the step creates one."""
    applied_fields: AppliedFields | None = None
    """The fields of the manifest that other field managers may take, or None."""
    inherited_rules: InheritedRules | None = None
    """The part of the manifest that comes from the Stack's environment, or None."""
    tolerated: tuple[LostField, ...] = ()
    """Fields of the manifest that other field managers took and may keep. The apply omits them."""
    repaired_fields: str = ""
    """The fields to repair as text, if that is the only reason for the write."""
    lost: tuple[LostField, ...] = ()
    """The fields of `repaired_fields`."""
    leaves_null: bool = False
    """Whether the apply alone may leave null where the manifest sets an empty map, so that the keys must be removed
    first."""
    owned_before: FieldOwnership | None = None
    """The fields of the object that the operator owns, if the definition changed, otherwise None. Fields that are no
    longer set are removed.
    """
    reclaims: bool = False
    """Whether removed fields may have another owner: a former applier of an adopted object, or no manager, as in a
    Secret."""
    reclaims_uid: str | None = None
    """UID of an unsigned object to reclaim when too little of it is cached to apply to it directly, or None."""
    kept_replicas: int | None = None
    """The number of replicas that the manifest has because the definition leaves it to others, or None."""
    may_adopt: bool = False
    """Whether an existing object without an owner may be adopted."""
    has_generated_name: bool = False
    """Whether the operator chose the name."""
    sensitive_texts: frozenset[str] | None = field(default=None, repr=False)
    """Texts that no message may show, or None if nothing in the manifest is sensitive."""

    @property
    def sent_manifest(self) -> Object:
        """Return the manifest without the tolerated fields, and with the defaults that the API server derives only once."""
        sent: Object = field_paths.without(self.manifest, [lost.path for lost in self.tolerated])
        return derived_defaults.add_defaults(sent)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Deletion of one obsolete object."""

    child: Child
    kept_replicas: int | None = None
    """The number of replicas that the next object of the resource can start with, or None."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    """Deletion of a StatefulSet that leaves its Pods and claims to the next StatefulSet with its name.

    Before that, the claims get the size of their new templates.
    """

    child: Child
    manifest: Object = field(repr=False)
    """The definition that the next StatefulSet has."""
    hash: str
    """Keyed hash of that definition. Part of the attempt's ID."""
    keeps_larger: bool = False
    """Whether claims may be larger than their new templates. Otherwise the step fails, because claims cannot shrink."""
    kept_replicas: int | None = None
    """See `Delete`."""
    sensitive_texts: frozenset[str] | None = field(default=None, repr=False)
    """Texts that no message may show, or None if nothing in the manifest is sensitive."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Release of one obsolete object: it stays unchanged and has no owner."""

    child: Child
    contents: str = ""
    """The retained object that it contains or defines, if that is the only reason to keep it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WriteHealthMark:
    """Write of a health mark onto one object."""

    child: Child
    reason: str | None
    """Why the object is unhealthy. None removes an earlier mark."""
    mark_id: str = ""
    """The HealthMark, as `<uid>/<generation>`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Restart of the Pods of a marked StatefulSet, one by one by its controller, and the end of its mark.

    Only the Pod template records the restart. One write changes the template and the mark, so nothing is left to do
    after a crash.
    """

    child: Child
    post_breakpoint: str = ""
    """The annotation by which the resource stops once the Pods are restarted; "" for none."""

    @property
    def patch(self) -> Object:
        """Return the merge patch of the object in exactly this state."""
        child = self.child
        annotations: Object = {names.ANNOTATION_UNHEALTHY: None, names.ANNOTATION_MARKED_BY: None}
        if child.marked_by:
            annotations[names.ANNOTATION_RESTARTED_BY] = child.marked_by
        if self.post_breakpoint:
            annotations[names.ANNOTATION_POST_BREAKPOINT] = self.post_breakpoint
        version = str(child.resource_version)
        restarted = {"metadata": {"annotations": {names.ANNOTATION_RESTART: version}}}
        return {
            "metadata": {"uid": child.uid, "resourceVersion": version, "annotations": annotations},
            "spec": {"template": restarted},
        }


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Suspend, resume or restore of one object: applies only the fields that do so."""

    child: Child
    manifest: Object = field(repr=False)
    """The fields that the suspend field manager applies. Fields that it applied before and now omits are removed."""
    purpose: SuspendPurpose
    repaired_paths: tuple[Path, ...] = ()
    """The fields that another client started again, if that is the only reason for the write."""


# Parts are objects outside the template that run the processes or hold the data of a resource: Pods and claims of a
# StatefulSet, and VolumeSnapshots.


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CreatePart:
    """Creation of a part of a resource."""

    resource: str
    kind: Kind
    manifest: Object = field(repr=False)

    @property
    def ref(self) -> ObjectRef:
        """Return the object that it creates."""
        return make_part_ref(self.kind, self.manifest)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DeletePart:
    """Deletion of a part of a resource."""

    resource: str
    kind: Kind
    live: Object = field(repr=False)
    actions: tuple[Action, ...] = ()
    """The actions on the resource that the deletion amounts to. A rule on any of them prevents it; without actions, no
    rule does."""

    @property
    def ref(self) -> ObjectRef:
        """Return the object that it deletes."""
        return make_part_ref(self.kind, self.live)

    @property
    def uid(self) -> str:
        """Return the UID of the object that it deletes."""
        return str(self.live["metadata"]["uid"])


def make_part_ref(kind: Kind, raw: Object) -> ObjectRef:
    """Return the reference to an object of that kind."""
    metadata = raw["metadata"]
    return ObjectRef(
        group=kind.group, kind=kind.name, namespace=metadata.get("namespace", ""), name=str(metadata["name"])
    )


def make_part_key(owner: str, ref: ObjectRef) -> str:
    """Return the key of the step for a part. owner: the component that plans it. No resource can have this name."""
    return f"/{owner}/{ref.namespace}/{ref.name}"


PartStep: TypeAlias = CreatePart | DeletePart
Step: TypeAlias = Apply | Delete | Detach | Release | WriteHealthMark | Restart | Suspend | CreatePart | DeletePart


def attempt_id(step: Step) -> AttemptId:
    """Return the ID of an attempt at the step. A change of the target or of the object gives another ID."""
    match step:
        case Apply():
            rules = step.inherited_rules.digest if step.inherited_rules is not None else ""
            return ApplyAttempt(hash=step.hash, uid=step.uid, may_adopt=step.may_adopt, inherited_rules=rules)
        case Delete() | Release():
            return RemovalAttempt(uid=step.child.uid)
        case Detach():
            return DetachAttempt(hash=step.hash, uid=step.child.uid)
        case WriteHealthMark():
            return MarkAttempt(uid=step.child.uid, reason=step.reason)
        case Restart():
            return MarkAttempt(uid=step.child.uid, reason=step.child.unhealthy_reason)
        case Suspend():
            return SuspendAttempt(uid=step.child.uid, purpose=step.purpose)
        case CreatePart():
            return ApplyAttempt(hash=str(step.ref))
        case DeletePart():
            return RemovalAttempt(uid=step.uid)


def find_work(step: Step) -> Work:
    """Return the effect of the step, which decides whether another step repeats it, regardless of the object."""
    match step:
        case Apply():
            rules = step.inherited_rules.digest if step.inherited_rules is not None else ""
            content = f"{step.hash}/{rules}" if rules else step.hash
            return Work(resource=step.resource, type=WorkType.APPLY, content=content, creates=step.uid is None)
        case Delete() | Detach() | Release():
            return Work(resource=step.child.resource, type=WorkType.REMOVE, content=step.child.uid)
        case WriteHealthMark():
            return Work(resource=step.child.resource, type=WorkType.MARK, content=step.reason or "")
        case Restart():
            return Work(resource=step.child.resource, type=WorkType.MARK, content=step.child.uid)
        case Suspend():
            return Work(resource=step.child.resource, type=WorkType.SUSPEND, content=step.purpose.value)
        case CreatePart():
            # Each part is counted separately: a resource may have hundreds.
            return Work(resource=f"{step.resource}/{step.ref.name}", type=WorkType.APPLY, creates=True)
        case DeletePart():
            return Work(resource=f"{step.resource}/{step.ref.name}", type=WorkType.REMOVE, content=step.uid)
        case _:
            assert_never(step)


def find_ref(step: Step) -> ObjectRef:
    """Return the object that the step writes."""
    return step.ref if isinstance(step, Apply | CreatePart | DeletePart) else step.child.ref


def find_kind(step: Step) -> Kind:
    """Return the kind of the object that the step writes."""
    return step.kind if isinstance(step, Apply | CreatePart | DeletePart) else step.child.kind


def describe_write(step: Step) -> str:
    """Describe the effect of the step, once it succeeded."""
    match step:
        case Apply():
            if step.uid is None:
                return "object created"
            return "object repaired" if step.repaired_fields else "object updated"
        case Delete() | Detach():
            kept = ", without its pods and claims" if isinstance(step, Detach) else ""
            return f"object deletion requested{kept}"
        case Release():
            return "object released"
        case WriteHealthMark():
            return "health mark written"
        case Restart():
            return "restart of its pods requested"
        case Suspend():
            return f"{step.purpose} applied"
        case CreatePart() | DeletePart():
            return "object of the resource created" if isinstance(step, CreatePart) else "object deletion requested"


def affected_keys(step: Step) -> tuple[str, ...]:
    """Return the keys to plan again once the step was executed or rejected."""
    match step:
        case Apply() | CreatePart() | DeletePart():
            return (step.resource,)
        case Delete() | Release():
            return (step.child.uid, step.child.resource)
        case Detach() | WriteHealthMark() | Restart() | Suspend():
            return (step.child.resource,)


def find_inputs(step: Step) -> tuple[str, ...]:
    """Return the incarnations (`name/incarnation`) of the objects whose values the written object contains."""
    if not isinstance(step, Apply):
        return ()
    recorded: str = step.manifest["metadata"]["annotations"].get(names.ANNOTATION_REQUIRES, "")
    return tuple(recorded.split(",")) if recorded else ()
