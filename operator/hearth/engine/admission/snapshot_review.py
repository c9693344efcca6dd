"""Review of StackSnapshots, and of requests to restore one.

Both wait for what they name, so a name without an object is only a warning. A snapshot of another Stack is denied: its
Stack never changes.
"""

from __future__ import annotations

from hearth.engine import stack_snapshots
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.definition import snapshot_restore
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef

COMPLETE = "Complete"


@value_class.dataclass(frozen=True, slots=True)
class SnapshotReviewer:
    """The reviewer of what concerns snapshots."""

    builder: RevisionBuilder

    async def review(self, review: Review) -> ReviewResult:
        """Review a new StackSnapshot. Its Stack never changes, so a later write needs no review."""
        name = str(review.spec.get("stackName") or "")
        if review.old is not None or not name:
            # An instance that does not exist is waited for as well, which its status says.
            return review_module.ALLOWED
        stack = await find(self.builder, names.STACK, namespace=review.namespace, name=name)
        warning = describe_stack(stack, name=name, namespace=review.namespace)
        return ReviewResult(warnings=review_module.to_warnings(warning))

    async def review_restore(self, review: Review) -> ReviewResult:
        """Review the snapshot that a Stack requests to be restored, if the request is new."""
        name = find_request(review.new)
        if not name or name == find_request(review.old):
            return review_module.ALLOWED
        found = await find(self.builder, stack_snapshots.STACK_SNAPSHOT, namespace=review.namespace, name=name)
        if found is None:
            text = (
                f"namespace {review.namespace} has no StackSnapshot {name}; nothing is restored before it is complete"
            )
            return ReviewResult(warnings=review_module.to_warnings(f"{snapshot_restore.PATH}: {text}"))
        owner = names.read_owner(review_module.read_spec(found))
        if owner != review.name:
            text = f"StackSnapshot {name} is one of {names.describe_owner(owner)}, not of {review.name}; name one of this Stack"
            return ReviewResult(denial=f"{snapshot_restore.PATH}: {text}")
        return ReviewResult(warnings=review_module.to_warnings(describe_snapshot(found, name=name)))


def find_request(stack: Object | None) -> str:
    """Return the name in `spec.rollback.toSnapshot`; "" for none."""
    rollback = review_module.read_spec(stack).get("rollback")
    return str(rollback.get("toSnapshot") or "") if isinstance(rollback, dict) else ""


def describe_stack(stack: Object | None, *, name: str, namespace: str) -> str:
    """Explain why a snapshot of the Stack would not be taken now; "" if it would."""
    if stack is None:
        return f"spec.stackName: namespace {namespace} has no Stack {name}; the snapshot waits until there is one"
    if review_module.read_spec(stack).get("kubeConfig") is not None:
        return (
            f"spec.stackName: the objects of Stack {name} are in another cluster (spec.kubeConfig), so this snapshot waits "
            f"forever; create VolumeSnapshots there"
        )
    if (stack.get("metadata") or {}).get("deletionTimestamp"):
        return f"spec.stackName: Stack {name} is being deleted, so no snapshot of it is taken"
    return ""


def describe_snapshot(snapshot: Object, *, name: str) -> str:
    """Explain why a snapshot is not restored at once; "" if it is."""
    status = snapshot.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    if (snapshot.get("metadata") or {}).get("deletionTimestamp"):
        return f"{snapshot_restore.PATH}: StackSnapshot {name} is being deleted; use another one"
    if phase != COMPLETE:
        return f"{snapshot_restore.PATH}: StackSnapshot {name} is not complete; nothing is restored before it is"
    return ""


API_VERSION = f"{names.GROUP}/{names.VERSION}"


async def find(builder: RevisionBuilder, kind_name: str, *, namespace: str, name: str) -> Object | None:
    """Return the live object; None if there is none. Raises ApiStatusError or Unreachable if that is unknown."""
    kind = builder.cluster.kinds.find(API_VERSION, kind_name)
    if kind is None:
        return None
    ref = ObjectRef(group=names.GROUP, kind=kind_name, namespace=namespace, name=name)
    try:
        return await builder.cluster.get(ref, kind=kind)
    except errors.ApiStatusError as error:
        if not error.is_not_found:
            raise
        return None
