"""Removal of a Stack's finalizer once the API server confirms that no child remains."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from hearth.engine import verified_revisions
from hearth.engine.definition import revision_builder
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope
from hearth.model import names
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import error_message
from hearth.plan.status import deletion_blockers

logger = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until the API server is asked again."""
SOON = 0.2
"""The same if the Stack only changed in the meantime."""
CONFLICT = 409


async def finalize(uid: str, services: Services, *, needed: Collection[int] = (), absent: Collection[Kind] = ()) -> str:
    """Remove the operator's finalizer; otherwise describe what remains and enqueue the Stack later.

    needed: numbers of revisions that are known to have been stored; absent: unlistable kinds without objects of the
    Stack.
    """
    stack = services.management_cluster.find_stack(uid)
    if stack is None or names.FINALIZER not in stack.finalizers:
        return ""
    try:
        left = await list_remaining(stack, services, needed=needed, absent=absent)
        if not left:
            # Use the current version: the API server rejects the removal from an older one.
            await services.management_cluster.remove_finalizer(services.management_cluster.find_stack(uid) or stack)
            return ""
        blocked = f"waits for {deletion_blockers.describe_all(iter(left), count=len(left))}"
    except (ApiStatusError, Unreachable) as error:
        if isinstance(error, ApiStatusError) and is_conflict(error):
            # The Stack changed, perhaps by a status of the operator. Reporting this would change it again.
            services.enqueue_after(SOON, uid, DirtyScope.STACK)
            return ""
        blocked = f"cannot verify that no child is left: {error}; the operator retries"
        logger.warning("finalization failed; retrying", stack=f"{stack.namespace}/{stack.name}", error=str(error))
    services.enqueue_after(RETRY, uid, DirtyScope.ALL_RESOURCES)
    return blocked


def is_conflict(error: ApiStatusError) -> bool:
    """Return whether the object had another version. A webhook with this code names no object."""
    return error.code == CONFLICT and bool(error_message.read_details(error.status or {}).get("name"))


async def is_namespace_terminating(stack: StackObject, services: Services) -> bool:
    """Return whether the Stack's namespace is being deleted, so that no deletion can be deferred; False if unknown."""
    kind = services.workload_cluster.kinds.find("v1", "Namespace")
    if kind is None:
        return False
    ref = ObjectRef(group="", kind="Namespace", namespace="", name=stack.namespace)
    try:
        live = await services.workload_cluster.get(ref, kind=kind)
    except (ApiStatusError, Unreachable):
        return False
    return "deletionTimestamp" in live["metadata"]


async def list_remaining(
    stack: StackObject, services: Services, *, needed: Collection[int] = (), absent: Collection[Kind] = ()
) -> list[Child]:
    """List live objects of every kind that the Stack ever applied; if unknown, of all listable kinds."""
    revisions = verified_revisions.load(services.management_cluster, services.hashes, stack)
    is_known = revisions.knows_all_kinds(needed)
    kinds = (
        revision_builder.find_served_kinds(services.workload_cluster, revisions.kinds)
        if is_known
        else services.workload_cluster.kinds.all()
    )
    for kind in kinds:
        try:
            found = await services.workload_cluster.list_children(kind, stack.uid)
        except ApiStatusError as error:
            if error.code != revision_builder.FORBIDDEN or (is_known and kind not in absent):
                raise
            # The kind was never required, so no child is of that kind.
            continue
        left = [child for child in found if child.is_identified]
        if left:
            services.workload_cluster.follow(kind, ())
            return left
    return []
