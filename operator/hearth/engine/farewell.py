"""Lets a Stack go once the server itself says that nothing of it is left."""

from __future__ import annotations

import structlog

from hearth.engine import acceptance
from hearth.engine.inbox import EVERYTHING
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.model import names
from hearth.model.child import Child
from hearth.model.errors import Refused, Unreachable
from hearth.model.kinds import ObjectRef
from hearth.plan import blockers

logger = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until the server is asked again."""


async def part(uid: str, services: Services) -> str:
    """Take our finalizer away; else the text says what is left, and the Stack is looked at again later."""
    stack = services.home.find_stack(uid)
    if stack is None or names.FINALIZER not in stack.finalizers:
        return ""
    try:
        left = await list_left(uid, services)
        if not left:
            await services.home.remove_finalizer(stack)
            return ""
        blocked = f"waits for {blockers.describe_all(iter(left), count=len(left))}"
    except (Refused, Unreachable) as error:
        blocked = f"cannot make sure that nothing is left: {error}; it is tried again"
        logger.warning("cannot finish a deletion", stack=f"{stack.namespace}/{stack.name}", error=str(error))
    services.mark_later(RETRY, uid, EVERYTHING)
    return blocked


async def is_swept_away(stack: StackObject, services: Services) -> bool:
    """Whether the Stack's whole namespace is on its way out, so that nothing in it can be held. False where nobody knows."""
    kind = services.cluster.kinds.find("v1", "Namespace")
    if kind is None:
        return False
    ref = ObjectRef(group="", kind="Namespace", namespace="", name=stack.namespace)
    try:
        live = await services.cluster.get(ref, kind=kind)
    except (Refused, Unreachable):
        return False
    return "deletionTimestamp" in live["metadata"]


async def list_left(uid: str, services: Services) -> list[Child]:
    """A live look at every kind that the Stack ever applied; at all kinds that there are where nobody knows."""
    revisions = services.home.revisions(uid)
    kinds = acceptance.served(services.cluster, acceptance.unite(revisions))
    for kind in kinds if revisions else services.cluster.kinds.all():
        left = [child for child in await services.cluster.list_children(kind, uid) if child.is_identified]
        if left:
            services.cluster.follow(kind, ())
            return left
    return []
