"""Implements `hearth.engine.ports.StackPlanClient` on a real API server, with a cache of all StackPlans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.engine.cluster_objects import StackPlanObject
from hearth.kube.cache.object_client import ObjectClient, RecordIndex
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import ClusterObserver
from hearth.model import limits, names, object_fields
from hearth.model.api import status_fields
from hearth.model.well_known_kinds import STACK_PLAN

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object


class KubeStackPlanClient(ObjectClient[StackPlanObject]):
    """Every StackPlan, or all of one namespace, by Stack. The watch runs from `start` to `close`."""

    kind = STACK_PLAN

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[str], None],
        *,
        is_approvable: bool,
        namespace: str = "",
        observer: ClusterObserver | None = None,
    ) -> None:
        """on_change: gets the UID of the Stack of a StackPlan after another writer changed the plan."""
        super().__init__(connection, on_change, namespace=namespace, observer=observer)
        self.is_approvable = is_approvable
        self._by_stack = index_by_stack()
        self.plans_of = self._by_stack.list_records

    async def create_plan(self, manifest: Object) -> StackPlanObject | None:
        """Create a StackPlan; return None if another object has its name."""
        answer = await self._sender.create_new(STACK_PLAN, manifest)
        return None if answer is None else self.put(answer)

    async def write_plan_status(self, plan: StackPlanObject, status: Object) -> None:
        """Merge-patch the status of a StackPlan. Does nothing if it was deleted."""
        await self.patch(plan, {"status": status}, "/status")

    async def delete_plan(self, plan: StackPlanObject) -> None:
        """Delete exactly this StackPlan, if it exists."""
        path = api_requests.object_path(STACK_PLAN, plan.namespace, plan.name)
        await self._sender.send_existing("delete", STACK_PLAN, path, body=api_requests.delete_options(plan.uid))
        self.forget(plan.uid)

    def parse(self, raw: Object) -> StackPlanObject:
        """Return the cached part of a StackPlan."""
        return parse_plan(raw)

    def replace(self, old: StackPlanObject | None, new: StackPlanObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted StackPlan."""
        self._by_stack.replace(old, new)
        either = new or old
        if either is not None and either.stack_uid and not is_ours:
            self._on_change(either.stack_uid)


def index_by_stack() -> RecordIndex[StackPlanObject]:
    """Return an empty index of StackPlans by the UID of their Stack."""
    return RecordIndex(lambda plan: plan.stack_uid)


def parse_plan(raw: Object) -> StackPlanObject:
    """Convert an object to the engine's view of a StackPlan."""
    metadata, spec = raw["metadata"], raw.get("spec")
    annotations = metadata.get("annotations") or {}
    approval = annotations.get(names.ANNOTATION_APPROVAL, "")
    return StackPlanObject(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=int(metadata["resourceVersion"]),
        created_at=metadata.get("creationTimestamp") or "",
        stack_uid=object_fields.text(raw, "spec", "stackRef", "uid"),
        spec=spec if isinstance(spec, dict) else {},
        status=status_fields.keep_valid(raw.get("status")),
        signature=annotations.get(names.ANNOTATION_SIGNATURE, "")[: limits.SIGNATURE_LENGTH + 1],
        approval=approval if len(approval) <= limits.APPROVAL_LENGTH else "",
    )
