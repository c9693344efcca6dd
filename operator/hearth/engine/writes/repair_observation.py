"""One read of an object just before a repair of its drift: what is reverted, and whose change it was.

Afterward nothing shows it any more. Only the first repair of a resource is observed, so no hot path has this request.
"""

from __future__ import annotations

from hearth.engine.ports import WorkloadCluster
from hearth.model import child
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.tenancy import Boundary
from hearth.plan.resource.drift_messages import reverted_values
from hearth.plan.state.steps import Apply

SECRET = "Secret"  # noqa: S105 -- a kind


async def describe(step: Apply, *, cluster: WorkloadCluster, boundary: Boundary) -> str:
    """Return what the repair reverts; only the fields if the account may not read the object. Never raises for an API error.

    cluster: as the account of the Stack accesses it; boundary: of the Stack.
    """
    if boundary.find_denial(step.ref):
        return ""
    try:
        live = await cluster.get(step.ref, kind=step.kind)
    except (ApiStatusError, Unreachable):
        return step.repaired_fields
    if live["metadata"].get("uid") != step.uid:
        return step.repaired_fields
    # A value that another client wrote into a field may be as sensitive as the one that belongs there.
    shows = step.sensitive_texts is None and step.kind.name != SECRET
    seen = child.parse_child(live, kind=step.kind, paths=())
    return reverted_values.describe(live, seen, step.manifest, step.lost, shows=shows)
