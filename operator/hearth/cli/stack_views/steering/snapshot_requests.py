"""Builds the StackSnapshot that `snapshot` creates, describes its status, and builds the patch of `restore`."""

from __future__ import annotations

from typing import Any, Final

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import verbs
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.model import names, object_fields, value_class
from hearth.model.child import Object

PREFIX_LENGTH: Final = 50
"""The API server adds five characters; a name has 63 at most in some of its uses."""
NEEDS_HELP: Final = frozenset(
    "StackNotFound StackDeleting OtherCluster TooManyVolumes TooManySnapshots NamespaceNotAllowed "
    "ServiceAccountRequired".split()
)
"""Reasons of `Ready` for a snapshot in progress that cannot complete unless a user helps."""


@value_class.dataclass(frozen=True, slots=True)
class SnapshotState:
    """A StackSnapshot, read from its object."""

    raw: Object | None
    """None after its deletion."""

    @property
    def phase(self) -> str:
        """Return its phase, "" before the first one."""
        return object_fields.text(self.raw, "status", "phase")

    @property
    def is_complete(self) -> bool:
        """Return whether it has all of its content."""
        return self.phase == "Complete"

    @property
    def needs_help(self) -> bool:
        """Return whether it cannot complete unless a user helps. The operator may still retry."""
        return self.raw is None or self.phase == "Failed" or self.reason in NEEDS_HELP

    @property
    def reason(self) -> str:
        """Return the reason of its condition Ready."""
        return StackState(self.raw or {}).ready.reason

    @property
    def message(self) -> str:
        """Return its own message."""
        if self.raw is None:
            return "it was deleted"
        ready = StackState(self.raw).ready
        return (
            f"{ready.reason}: {ready.message}"
            if ready.reason
            else "waits for the operator; if this takes long, check that an operator is running"
        )


def find_refusal(stack: StackState) -> str:
    """Return why no snapshot of the Stack can be taken, or "" if it can."""
    if stack.is_deleting:
        return f"{stack.title} is being deleted, so no snapshot can be taken"
    if object_fields.mapping(stack.spec, "kubeConfig"):
        return (
            f"the objects of {stack.title} are in another cluster; a snapshot can only contain objects of this cluster"
        )
    return ""


def make_snapshot(stack: StackState, *, name: str, is_retained: bool) -> Object:
    """Return the StackSnapshot to create. name: "" lets the API server generate one."""
    prefix = f"{stack.name[:PREFIX_LENGTH].rstrip('-.')}-"
    spec: Object = names.write_owner(stack.owner_key) | ({"deletionPolicy": "Retain"} if is_retained else {})
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "StackSnapshot",
        "metadata": {"namespace": stack.namespace, **({"name": name} if name else {"generateName": prefix})},
        "spec": spec,
    }


def describe(snapshot: Object) -> str:
    """Return the fields of a snapshot: `stackName=shop deletionPolicy=Retain`."""
    stated = {**snapshot["spec"], **(snapshot["spec"].get("stackRef") or {})}
    stated.pop("stackRef", None)
    return " ".join(f"spec.{key}={value}" for key, value in stated.items())


def note_waiting(stack: StackState) -> tuple[str, ...]:
    """Return a note that the snapshot waits for the Stack, unless the Stack is complete."""
    if stack.is_observed and stack.phase.endswith("Complete"):
        return ()
    return (f"the Stack is {stack.phase or 'new'}: the snapshot is taken once a revision is complete",)


def restore(stack: StackState, snapshot: Object) -> VerbResult:
    """Make the revision of a snapshot the target, with the data of its volumes."""
    if refusal := explain_unusable(stack, snapshot):
        return Refusal(said=refusal)
    name, stated = snapshot["metadata"]["name"], object_fields.text(stack.spec, "rollback", "toSnapshot")
    is_target = stack.target_cause == "Rollback" and stack.is_observed
    if stated == name and is_target and not stack.is_ready:
        return AlreadySo(said=f"is already in progress to snapshot {name}")
    has_volumes = bool(object_fields.entries(snapshot, "status", "volumes"))
    data = "data that was written since the snapshot is replaced; " if has_volumes else ""
    notes = (
        f"{data}the definition in the spec is kept but not applied",
        *verbs.note_paused(stack),
        *verbs.note_suspended(stack),
        *verbs.note_git(stack, f"{stack.options_path}.rollback"),
    )
    patch = make_patch(stack, toRevision=None, toSnapshot=name)
    # Without a requested revision, the operator would apply the definition in the spec before the restore.
    bridge = object_fields.number(snapshot, "status", "revision") if is_target else None
    return Write(
        patches=(make_patch(stack, toRevision=bridge, toSnapshot=None), patch) if stated == name else (patch,),
        said=f"patched: {stack.options_path}.rollback.toSnapshot={name}",
        notes=notes,
    )


def make_patch(stack: StackState, **request: Any) -> Object:
    """Return the patch of the request for a rollback; None removes a field."""
    return stack.patch_options({"rollback": request})


def explain_unusable(stack: StackState, snapshot: Object) -> str:
    """Return why the Stack cannot be restored from the snapshot now, or "" if it can."""
    state, name = SnapshotState(snapshot), object_fields.text(snapshot, "metadata", "name")
    if stack.is_deleting:
        return f"{stack.title} is being deleted; a deletion cannot be rolled back"
    if not stack.is_named_by(snapshot):
        owner = names.read_owner(object_fields.mapping(snapshot, "spec"))
        return f"stacksnapshot/{name} is one of {names.describe_owner(owner)}, not of {stack.title}"
    if object_fields.text(snapshot, "metadata", "deletionTimestamp"):
        return f"stacksnapshot/{name} is being deleted"
    if not state.is_complete:
        advice = f"kubectl wait stacksnapshot/{name} -n {stack.namespace} --for=condition=Ready"
        return f"stacksnapshot/{name} is not complete: {state.message}. To wait for it: {advice}"
    if object_fields.text(snapshot, "status", "stackUID") != stack.uid:
        return f"stacksnapshot/{name} is one of an earlier stack/{stack.name}, which was deleted"
    return ""
