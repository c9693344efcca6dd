"""Lets a Stack go once the server itself says that nothing of it is left."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from hearth.engine import verified_revisions
from hearth.engine.definition import revision_builder
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import ALL_RESOURCES, STACK_SELF
from hearth.model import names
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import error_message
from hearth.plan.status import deletion_blockers

logger = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until the server is asked again."""
SOON = 0.2
"""The same where the Stack only changed meanwhile."""
CONFLICT = 409


async def finalize(uid: str, services: Services, *, needed: Collection[int] = (), absent: Collection[Kind] = ()) -> str:
    """Take our finalizer away; else the text says what is left, and the Stack is looked at again later.

    needed: the numbers of revisions that are known to have been stored; absent: kinds that may not be listed, and of which
    nothing of the Stack can be there.
    """
    stack = services.management_cluster.find_stack(uid)
    if stack is None or names.FINALIZER not in stack.finalizers:
        return ""
    try:
        left = await list_remaining(stack, services, needed=needed, absent=absent)
        if not left:
            # As it is by now: of an older version the server would take no finalizer away.
            await services.management_cluster.remove_finalizer(services.management_cluster.find_stack(uid) or stack)
            return ""
        blocked = f"waits for {deletion_blockers.describe_all(iter(left), count=len(left))}"
    except (ApiStatusError, Unreachable) as error:
        if isinstance(error, ApiStatusError) and is_conflict(error):
            # The Stack changed on the way, by a status of our own perhaps. To tell of it would be the next such change.
            services.enqueue_after(SOON, uid, STACK_SELF)
            return ""
        blocked = f"cannot make sure that nothing is left: {error}; it is tried again"
        logger.warning("cannot finish a deletion", stack=f"{stack.namespace}/{stack.name}", error=str(error))
    services.enqueue_after(RETRY, uid, ALL_RESOURCES)
    return blocked


def is_conflict(error: ApiStatusError) -> bool:
    """Whether the object was another version by then; a webhook that chose that code names no object."""
    return error.code == CONFLICT and bool(error_message.read_details(error.status or {}).get("name"))


async def is_namespace_terminating(stack: StackObject, services: Services) -> bool:
    """Whether the Stack's whole namespace is on its way out, so that nothing in it can be held. False where nobody knows."""
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
    """A live look at every kind that the Stack ever applied; where nobody knows, at all kinds that we may look at."""
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
            # Nobody was ever asked for the right to it, so nothing of ours is of that kind.
            continue
        left = [child for child in found if child.is_identified]
        if left:
            services.workload_cluster.follow(kind, ())
            return left
    return []
