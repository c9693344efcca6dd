"""The ports `StackPlanClient` and `ChangePreviews` on the fake server, for one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hearth.engine.cluster_objects import StackObject, StackPlanObject
from hearth.kube import stack_plan_client
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.target.change_plans import PreviewedChange
from hearth.preview import planned_steps, source_readers
from support.fake_world import preview_of
from support.ports.fake_connection import FakeWire
from support.server import api_errors, fake_kinds
from support.server.fake_objects import copy
from support.server.fake_server import FakeServer
from support.server.request_faults import Request

MANAGER = "hearth"
STACK_PLAN = fake_kinds.STACK_PLAN.kind


class FakePlans:
    """One engine's access to StackPlans, including existing ones."""

    is_synced = True
    is_approvable = True

    def __init__(self, wire: FakeWire, on_change: Callable[[str], None]) -> None:
        self._wire = wire
        self._server = wire.server
        self._on_change = on_change
        self._plans: dict[str, StackPlanObject] = {}
        self._index = stack_plan_client.index_by_stack()
        wire.receive(self._take)
        for raw in self._server.list_all(STACK_PLAN):
            self._take(STACK_PLAN, None, raw)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        raw = after or before
        if raw is None or kind != STACK_PLAN:
            return
        plan = stack_plan_client.parse_plan(copy(raw))
        known = self._plans.get(plan.uid)
        if after is not None and known is not None and known.resource_version >= plan.resource_version:
            return
        self._replace(plan.uid, plan if after is not None else None)
        self._on_change(plan.stack_uid)

    def _replace(self, uid: str, plan: StackPlanObject | None) -> None:
        self._index.replace(self._plans.pop(uid, None), plan)
        if plan is not None:
            self._plans[uid] = plan

    def plans_of(self, namespace: str, stack_uid: str) -> Sequence[StackPlanObject]:
        """As the port says."""
        return self._index.list_records(namespace, stack_uid)

    async def create_plan(self, manifest: Object) -> StackPlanObject | None:
        """As the port says."""
        metadata = manifest["metadata"]
        request = Request(verb="plan", kind=STACK_PLAN, namespace=metadata["namespace"], name=metadata["name"])
        try:
            answer = await self._wire.send(request, lambda: self._server.create(copy(manifest), manager=MANAGER))
        except errors.ApiStatusError as error:
            if not error.is_conflict:
                raise
            return None
        return self._put(answer)

    async def write_plan_status(self, plan: StackPlanObject, status: Object) -> None:
        """As the port says."""

        def write() -> Object:
            self._check(plan)
            return self._server.patch_status(STACK_PLAN, plan.namespace, plan.name, copy(status), manager=MANAGER)

        try:
            self._put(await self._wire.send(plan_request("plan-status", plan), write))
        except errors.ApiStatusError as error:
            if not error.is_not_found:
                raise

    async def delete_plan(self, plan: StackPlanObject) -> None:
        """As the port says."""
        try:
            await self._wire.send(
                plan_request("plan-delete", plan),
                lambda: self._server.delete(STACK_PLAN, plan.namespace, plan.name, uid=plan.uid),
            )
        except errors.ApiStatusError as error:
            if not error.is_not_found:
                raise
        self._replace(plan.uid, None)

    def _check(self, plan: StackPlanObject) -> None:
        live = self._server.get(STACK_PLAN, plan.namespace, plan.name)
        if live["metadata"]["resourceVersion"] != str(plan.resource_version):
            raise api_errors.stale(STACK_PLAN, plan.name)

    def _put(self, answer: Object) -> StackPlanObject:
        plan = stack_plan_client.parse_plan(copy(answer))
        known = self._plans.get(plan.uid)
        if known is None or known.resource_version < plan.resource_version:
            self._replace(plan.uid, plan)
        return plan


class FakePreviews:
    """Previews of the Stacks of a fake server."""

    def __init__(self, server: FakeServer, hashes: HashFunction) -> None:
        self._server = server
        self._hashes = hashes

    async def preview(self, stack: StackObject) -> PreviewedChange:
        """As the port says."""
        present = self._server.get(fake_kinds.STACK.kind, stack.namespace, stack.name)
        preview = await preview_of.preview_spec(
            self._server,
            planned_steps.unpause(present)["spec"],
            namespace=stack.namespace,
            name=stack.name,
            hash_content=self._hashes.of_stack(stack.uid).hash,
        )
        kinds = (fake_kinds.STACK, fake_kinds.RESOURCE_GROUP, fake_kinds.STACK_DEFINITION)
        readers = source_readers.find_readers(raw for each in kinds for raw in self._server.list_all(each.kind))
        return planned_steps.make_change(preview, generation=present["metadata"]["generation"], readers=readers)


def plan_request(verb: str, plan: StackPlanObject) -> Request:
    """A write of a StackPlan."""
    return Request(verb=verb, kind=STACK_PLAN, namespace=plan.namespace, name=plan.name)
