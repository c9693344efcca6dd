"""Statuses of resources that cannot be planned, because the manifest has no value yet or the object is unusable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from hearth.model import limits, value_class
from hearth.model.child import Child, Path
from hearth.model.errors import Mistake
from hearth.model.memory_shares import memory_shares
from hearth.model.stack_tree import Node
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.watched_kinds import Denial, KindUnavailable
from hearth.template.blueprint import EvaluationError, Pending, ResourceBlueprint
from hearth.template.parser import object_metadata

KIND_NOT_AVAILABLE = "KindNotServed"
"""The reason of a resource whose kind is not served, or not watched yet."""
VALUE_MISSING = "FieldNotFound"
"""The reason of a resource that waits for a value although its required resources are ready."""

NESTED_IN_ITSELF = "NestedInItself"
"""The reason of a resource whose object is this Stack, or a Stack that contains this one."""
LIMIT_REACHED = "LimitReached"
"""Reason of a resource that waits because its namespace has no memory left."""


@value_class.dataclass(frozen=True, slots=True)
class NoRoom:
    """A manifest that does not fit into memory now. It is evaluated again later."""

    message: str


Unevaluated: TypeAlias = Pending | EvaluationError | NoRoom | Mistake | Denial | KindUnavailable
"""Why a resource has no manifest."""


def explain(unevaluated: Unevaluated, *, child: Child | None) -> ResourceStatus:
    """Return the status of a resource whose manifest has no value yet."""
    match unevaluated:
        case Denial():
            return waiting(unevaluated.message, child=child, reason="Forbidden", cause=Cause.OTHER)
        case KindUnavailable():
            return waiting(unevaluated.message, child=child, reason=KIND_NOT_AVAILABLE, cause=Cause.KIND_NOT_AVAILABLE)
        case Pending(is_evaluating=True):
            message = f"waits for {enumerate_names(unevaluated.missing)}"
            return waiting(message, child=child, reason="Evaluating", cause=Cause.EVALUATING)
        case Pending():
            # The required resource is ready, so the path may never appear. The message names it, and a later value is
            # still used.
            missing = enumerate_names(unevaluated.missing)
            message = f"waits for {missing}, which does not exist although its resource is ready"
            return waiting(message, child=child, reason=VALUE_MISSING, cause=Cause.VALUE_MISSING)
        case Mistake():
            reason, message = object_metadata.find_reason(unevaluated), str(unevaluated)
            return ResourceStatus(state=ResourceState.FAILED, reason=reason, message=message, child=child)
        case NoRoom():
            return waiting(unevaluated.message, child=child, reason=LIMIT_REACHED, cause=Cause.OTHER)
        case EvaluationError():
            message = f"{unevaluated.path}: {unevaluated.message}"
            return ResourceStatus(state=ResourceState.FAILED, reason="ExpressionFailed", message=message, child=child)
        case _:
            assert_never(unevaluated)


def waiting(
    message: str, *, child: Child | None = None, reason: str = "Waiting", cause: Cause = Cause.ORDER
) -> ResourceStatus:
    """Return the status of a resource that cannot be planned yet."""
    return ResourceStatus(state=ResourceState.WAITING, reason=reason, message=message, cause=cause, child=child)


def unreadable(child: Child) -> ResourceStatus:
    """Return the status of a resource whose object can be read only in part."""
    message = f"{child.ref} cannot be read: {child.defect}; or delete the object, which is then recreated"
    return ResourceStatus(state=ResourceState.FAILED, reason="ObjectUnreadable", message=message, child=child)


def too_large(child: Child, path: Path) -> ResourceStatus:
    """Return the status of a resource with an object whose field at `path` is read and too large to store."""
    message = (
        f"{child.ref}: {'.'.join(path)}, which this Stack reads, is too large: at most {limits.OBJECT_KEPT_BYTES // 1024} KiB are "
        f"stored of the fields that are read from one object, and {memory_shares.total // 2**20} MiB of all objects of Stacks, where each namespace can use half of the space that others leave; "
        f"make it smaller, or read fewer of its fields"
    )
    return ResourceStatus(state=ResourceState.FAILED, reason="ObjectTooLarge", message=message, child=child)


def circular(child: Child, circle: Sequence[Node]) -> ResourceStatus:
    """Return the status of a resource whose object is a Stack that contains this one. circle: see `InMemoryState`.

    It does not quote that Stack, which would in turn quote this one.
    """
    way = " > ".join(map(str, (circle[0], *reversed(circle))))
    message = (
        f"Stack {circle[0]} is nested in itself ({way}), so each waits for the other; remove the resource from one"
    )
    return ResourceStatus(state=ResourceState.FAILED, reason=NESTED_IN_ITSELF, message=message, child=child)


def find_mistake(resource: ResourceBlueprint, manifest: Mapping[str, Any]) -> Mistake | None:
    """Find an error in metadata that expressions produced. The compiler checks all other metadata."""
    return next(
        object_metadata.find_mistakes(manifest.get("metadata"), path=f"{resource.path}.manifest.metadata"), None
    )


def find_repeated(resource: ResourceBlueprint, manifest: Mapping[str, Any]) -> EvaluationError | None:
    """Find duplicate list elements that the values of expressions created."""
    found = resource.find_repeated(manifest) if resource.find_repeated is not None else ()
    if not found:
        return None
    (below, message), *more = found
    path = f"{resource.path}.manifest"
    others = "".join(f"; {path}{each}: {words}" for each, words in more)
    return EvaluationError(path=path + below, message=message + others)
