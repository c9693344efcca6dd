"""Whether a namespace is being deleted: nothing can be created in it any more, and nothing in it may wait for a user."""

from __future__ import annotations

from hearth.engine.services import Services
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import ObjectRef


async def is_terminating(namespace: str, services: Services) -> bool:
    """Return whether a namespace is being deleted, so that no deletion can be deferred; False if unknown."""
    kind = services.workload_cluster.kinds.find("v1", "Namespace")
    if kind is None:
        return False
    ref = ObjectRef(group="", kind="Namespace", namespace="", name=namespace)
    try:
        live = await services.workload_cluster.get(ref, kind=kind)
    except (ApiStatusError, Unreachable):
        return False
    return "deletionTimestamp" in live["metadata"]
