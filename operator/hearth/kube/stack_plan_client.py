"""Implements `hearth.engine.ports.StackPlanClient` on a real API server, with a cache of all StackPlans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hearth.engine.cluster_objects import StackPlanObject
from hearth.kube.cache import object_store
from hearth.kube.cache.object_store import WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import ClusterObserver, Reflector, WatchContext
from hearth.model import limits, names, object_fields
from hearth.model.api import status_fields
from hearth.model.well_known_kinds import STACK_PLAN

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object


class KubeStackPlanClient(WatchedCache[StackPlanObject]):
    """Every StackPlan, or all of one namespace, by Stack. The watch runs from `start` to `close`."""

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
        self.is_approvable = is_approvable
        self._on_change = on_change
        self._sender = api_requests.ApiClient(connection, observer)
        self._store = object_store.ObjectStore(self)
        self._index = PlanIndex()
        self.plans_of = self._index.list_of_stack
        context = WatchContext(connection=connection, observer=observer)
        path = api_requests.collection_path(STACK_PLAN, namespace)
        self._reflector = Reflector(context, path, self._store, name=STACK_PLAN.key)

    async def create_plan(self, manifest: Object) -> StackPlanObject | None:
        """Create a StackPlan; return None if another object has its name."""
        answer = await self._sender.create_new(STACK_PLAN, manifest)
        return None if answer is None else self.put(answer)

    async def write_plan_status(self, plan: StackPlanObject, status: Object) -> None:
        """Merge-patch the status of a StackPlan. Does nothing if it was deleted."""
        path = f"{api_requests.object_path(STACK_PLAN, plan.namespace, plan.name)}/status"
        patch = api_requests.at_version({"status": status}, plan.resource_version)
        answer = await self._sender.send_existing("patch", STACK_PLAN, path, body=patch)
        if answer is None:
            self.forget(plan.uid)
        else:
            self.put(answer)

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
        self._index.replace(old, new)
        either = new or old
        if either is not None and either.stack_uid and not is_ours:
            self._on_change(either.stack_uid)


class PlanIndex:
    """StackPlans by Stack."""

    def __init__(self) -> None:
        self._by_stack: dict[tuple[str, str], dict[str, StackPlanObject]] = {}

    def replace(self, old: StackPlanObject | None, new: StackPlanObject | None) -> None:
        """Update a created, changed or deleted StackPlan."""
        if old is not None:
            key = (old.namespace, old.stack_uid)
            of_stack = self._by_stack.get(key, {})
            of_stack.pop(old.uid, None)
            if not of_stack:
                self._by_stack.pop(key, None)
        if new is not None:
            self._by_stack.setdefault((new.namespace, new.stack_uid), {})[new.uid] = new

    def list_of_stack(self, namespace: str, stack_uid: str) -> Sequence[StackPlanObject]:
        """Return the StackPlans of a Stack."""
        return tuple(self._by_stack.get((namespace, stack_uid), {}).values())


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
