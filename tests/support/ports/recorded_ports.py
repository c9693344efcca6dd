"""The ports of an engine on a real API server. Every request is counted, and refused if the test plans it.

Everything else is passed on, and responses are not changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hearth.engine.cluster_objects import HealthMarkObject, Revision, StackObject, StackSnapshotObject
from hearth.engine.ports import (
    HealthMarkClient,
    ManagementCluster,
    SnapshotClient,
    WorkloadCluster,
)
from hearth.model import errors, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from support.ports import (
    fake_health_mark_client,
    fake_management_cluster,
    fake_snapshot_client,
    fake_workload_cluster,
)
from support.server import request_faults
from support.server.request_faults import Request, Traffic

Answer = TypeVar("Answer")


async def pass_on(log: Traffic, request: Request, send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the response to one request, unless it must be refused or lost."""
    how = log.record(request)
    refusal = log.find_refusal(request, how)
    if refusal is not None and not isinstance(refusal, request_faults.Lost):
        raise refusal
    answer = await send()
    log.settle(request)
    if refusal is not None:
        raise errors.Unreachable("the connection was closed before an answer came")
    return answer


class RecordedWorkloadCluster:
    """The port `Cluster` around another."""

    def __init__(self, inner: WorkloadCluster, log: Traffic) -> None:
        self._inner = inner
        self._log = log

    def acting_as(self, user: str) -> RecordedWorkloadCluster:
        """As the port says."""
        return RecordedWorkloadCluster(self._inner.acting_as(user), self._log)

    def __getattr__(self, name: str) -> Any:
        """Forward methods whose requests are not counted."""
        return getattr(self._inner, name)

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """As the port says."""
        request = fake_workload_cluster.describe("apply", kind, manifest)
        return await pass_on(
            self._log, request, lambda: self._inner.apply(manifest, kind=kind, manager=manager, force=force)
        )

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """As the port says."""
        request = fake_workload_cluster.describe("dry-run", kind, manifest)
        return await pass_on(
            self._log, request, lambda: self._inner.apply_dry_run(manifest, kind=kind, manager=manager)
        )

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """As the port says."""
        request = fake_workload_cluster.describe("dry-run", kind, manifest)
        await pass_on(self._log, request, lambda: self._inner.check_definition(manifest, kind=kind))

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """As the port says."""
        request = fake_workload_cluster.describe("dry-run", kind, manifest)
        return await pass_on(self._log, request, lambda: self._inner.create_dry_run(manifest, kind=kind))

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="dry-run", kind=kind, namespace=ref.namespace, name=ref.name)
        return await pass_on(self._log, request, lambda: self._inner.change_dry_run(ref, patch, kind=kind))

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """As the port says."""
        request = Request(verb="change", kind=kind, namespace=ref.namespace, name=ref.name)
        return await pass_on(self._log, request, lambda: self._inner.change(ref, patch, kind=kind))

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="get", kind=kind, namespace=ref.namespace, name=ref.name)
        return await pass_on(self._log, request, lambda: self._inner.get(ref, kind=kind))

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """As the port says."""
        metadata = manifest["metadata"]
        request = Request(verb="create", kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
        return await pass_on(self._log, request, lambda: self._inner.create_object(manifest, kind=kind))

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="change", kind=kind, namespace=ref.namespace, name=ref.name)
        return await pass_on(self._log, request, lambda: self._inner.change_object(ref, patch, kind=kind))

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """As the port says."""
        metadata = raw["metadata"]
        request = Request(
            verb="delete-object", kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"]
        )
        await pass_on(self._log, request, lambda: self._inner.delete_object(raw, kind=kind))

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """As the port says."""
        request = fake_workload_cluster.describe_child("delete", child)
        return await pass_on(self._log, request, lambda: self._inner.delete(child, keeps_dependents=keeps_dependents))

    async def release(self, child: Child) -> None:
        """As the port says."""
        request = fake_workload_cluster.describe_child("release", child)
        await pass_on(self._log, request, lambda: self._inner.release(child))

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """As the port says."""
        request = fake_workload_cluster.describe_child("mark", child)
        return await pass_on(self._log, request, lambda: self._inner.mark(child, reason, mark_id=mark_id))

    async def list_children(
        self, kind: Kind, stack_uid: str, *, namespace: str = "", whole: bool = False
    ) -> list[Child]:
        """As the port says."""
        request = Request(verb="list", kind=kind, namespace="", name="")
        return await pass_on(
            self._log,
            request,
            lambda: self._inner.list_children(kind, stack_uid, namespace=namespace, whole=whole),
        )

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """As the port says."""
        request = Request(verb="access-review", kind=kind, namespace=namespace, name=name)
        return await pass_on(
            self._log, request, lambda: self._inner.is_allowed(verb, kind=kind, namespace=namespace, name=name)
        )


class RecordedManagementCluster:
    """The port `Home` around another."""

    def __init__(self, inner: ManagementCluster, log: Traffic) -> None:
        self._inner = inner
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """Forward methods whose requests are not counted."""
        return getattr(self._inner, name)

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """As the port says."""
        request = Request(
            verb="revision", kind=fake_management_cluster.REVISION, namespace=stack.namespace, name=revision.name
        )
        return await pass_on(self._log, request, lambda: self._inner.create_revision(stack, revision, definition))

    async def annotate_revision(self, stack: StackObject, revision: Revision, annotation: str, text: str) -> None:
        """As the port says."""
        request = Request(
            verb="finished-record", kind=fake_management_cluster.REVISION, namespace=stack.namespace, name=revision.name
        )
        await pass_on(self._log, request, lambda: self._inner.annotate_revision(stack, revision, annotation, text))

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """As the port says."""
        request = Request(
            verb="delete-revision", kind=fake_management_cluster.REVISION, namespace=stack.namespace, name=revision.name
        )
        await pass_on(self._log, request, lambda: self._inner.delete_revision(stack, revision))

    async def add_finalizer(self, stack: StackObject) -> None:
        """See the port; sends nothing if our finalizer is already there."""
        if names.FINALIZER not in stack.finalizers:
            request = fake_management_cluster.stack_request("finalizer", stack)
            await pass_on(self._log, request, lambda: self._inner.add_finalizer(stack))

    async def remove_finalizer(self, stack: StackObject) -> None:
        """See the port; sends nothing if our finalizer is already removed."""
        if names.FINALIZER in stack.finalizers:
            request = fake_management_cluster.stack_request("finalizer", stack)
            await pass_on(self._log, request, lambda: self._inner.remove_finalizer(stack))

    async def delete_stack(self, stack: StackObject) -> None:
        """As the port says."""
        request = fake_management_cluster.stack_request("delete-stack", stack)
        await pass_on(self._log, request, lambda: self._inner.delete_stack(stack))

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        request = fake_management_cluster.stack_request("status", stack)
        await pass_on(self._log, request, lambda: self._inner.write_status(stack, status))

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """As the port says."""
        self._log.events.append((stack.name, type_, reason, message))
        self._log.record(fake_management_cluster.stack_request("event", stack))
        await self._inner.emit_event(stack, type_=type_, reason=reason, message=message)

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """As the port says."""
        self._log.events.append((ref.name, type_, reason, message))
        await self._inner.emit_source_event(ref, type_=type_, reason=reason, message=message)


class RecordedMarks:
    """The port `HealthMarkClient` around another."""

    def __init__(self, inner: HealthMarkClient, log: Traffic) -> None:
        self._inner = inner
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """Forward methods whose requests are not counted."""
        return getattr(self._inner, name)

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """As the port says."""
        request = fake_health_mark_client.mark_request(mark, "mark-resolution")
        await pass_on(self._log, request, lambda: self._inner.write_mark_resolution(mark, resolution))

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """As the port says."""
        request = fake_health_mark_client.mark_request(mark)
        await pass_on(self._log, request, lambda: self._inner.write_mark_status(mark, status))


class RecordedSnapshots:
    """The port `SnapshotClient` around another."""

    def __init__(self, inner: SnapshotClient, log: Traffic) -> None:
        self._inner = inner
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """Forward methods whose requests are not counted."""
        return getattr(self._inner, name)

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """As the port says."""
        request = fake_snapshot_client.snapshot_request("snapshot-status", snapshot)
        await pass_on(self._log, request, lambda: self._inner.write_snapshot_status(snapshot, status))

    async def write_snapshot_content(self, snapshot: StackSnapshotObject, content: str) -> None:
        """As the port says."""
        request = fake_snapshot_client.snapshot_request("snapshot-content", snapshot)
        await pass_on(self._log, request, lambda: self._inner.write_snapshot_content(snapshot, content))

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """As the port says."""
        request = fake_snapshot_client.snapshot_request("snapshot-finalizer", snapshot)
        await pass_on(self._log, request, lambda: self._inner.write_snapshot_finalizers(snapshot, finalizers))
