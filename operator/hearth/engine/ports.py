"""Ports of the engine, one protocol per role.

Two implementations exist: `hearth.kube` on a real API server, and the fake cluster of the tests. Contract tests run the
same cases against both. A request raises `ApiStatusError` for any answer other than 2xx and `Unreachable` for no
answer. It raises nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from hearth.model import names
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.stack_tree import StackTree
from hearth.model.tenancy import Boundary
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.template.cel.evaluation import Evaluator, ScriptEvaluator


class CacheListener(Protocol):
    """Receiver of cache changes. Called in the engine's event loop, never from another thread; must not block."""

    def on_child(self, stack_uid: str, resource: str) -> None:
        """Handle a child with these labels that was added, changed or deleted."""

    def on_stack(self, uid: str) -> None:
        """Handle a Stack that was added, changed (spec, metadata or status) or deleted."""

    def on_revision(self, stack_uid: str) -> None:
        """Handle a ControllerRevision with this Stack's label that another writer added, changed or deleted."""

    def on_kinds(self) -> None:
        """Handle a change of the set of served kinds."""

    def on_synced(self, kind: Kind) -> None:
        """Handle a cache that now contains what `follow` requested, or a denial that `find_denial` explains."""

    def on_source(self, ref: ObjectRef) -> None:
        """Handle a definition's ConfigMap or Secret that was added, changed or deleted."""

    def on_health_mark(self, uid: str) -> None:
        """Handle a HealthMark that was added, changed or deleted."""

    def on_stack_snapshot(self, uid: str) -> None:
        """Handle a StackSnapshot that was added, changed or deleted, or a change of one of its VolumeSnapshots."""

    def on_retry_trigger(self, cause: RetryTrigger) -> None:
        """Handle a trigger of `watch_trigger` that changed, or may have changed before its watch started."""


class WorkloadCluster(Protocol):
    """The cluster of the children: one instance per credentials, never module state."""

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""

    def acting_as(self, user: str) -> WorkloadCluster:
        """Return the same cluster, whose requests about single objects are made as that user; "" for the operator.

        Watches, lists, discovery, caches and connections are shared. Cheap.
        """

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Make the schemas of these kinds available in `kinds.find_schema`.

        Schemas are cached. An unavailable schema is left out.
        """

    async def refresh_kinds(self) -> None:
        """Query the served kinds again (rate-limited; called on a miss)."""

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Cache all labeled objects of this kind, with at least these fields of each.

        namespace: of the Stack. A kind that the operator watches in single namespaces is watched in that one.
        Returns True if the cache is synced. Otherwise returns False, and `on_synced` is called later. The set of fields
        only grows.
        """

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return the server's reason for denying the watch of a followed kind; "" if no denial is known."""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return whether the last attempt to list a followed kind failed, other than by a denial."""

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return all cached objects of all followed kinds with this Stack's label, by resource name (the label's value)."""

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return the same for one resource; cheap."""

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply a complete manifest (name, namespace and labels included) by server-side apply.

        Returns the object in the answer, which is already in the cache. force: take fields of other field managers.
        """

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Return the result of a forced server-side apply without writing it."""

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> None:
        """Create the object in a strict dry run under a generated name; return if the definition is valid."""

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Return the result of a merge patch of the live object without writing it."""

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Write a merge patch of the live object; preconditions stand in its metadata, as does `managedFields`.

        Returns the object in the answer, which is already in the cache.
        """

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """Return the complete live object. Raises `ApiStatusError` with code 404 if there is none."""

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Create an object that is no child; return it as stored. Raises `ApiStatusError` with 409 if the name is taken."""

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Delete exactly this object, which is no child (precondition: UID); ignore one that is gone.

        Raises `ApiStatusError` with 409 if another object has the name.
        """

    async def delete(self, child: Child) -> bool:
        """Delete exactly this object (preconditions: UID and version) with background propagation.

        An object that changed since is deleted too, unless the change forbids deletion: `ApiStatusError` with 409.
        Returns True if the object is gone, also if it already was. Returns False while finalizers remain. Updates the
        cache.
        """

    async def release(self, child: Child) -> None:
        """Remove the operator's labels and annotations from exactly this object (preconditions: UID and version).

        Changes nothing else. Ignores an object that is gone or no longer a child of that Stack. Updates the cache.
        Raises `ApiStatusError` with 409 if the object keeps changing.
        """

    async def mark(self, child: Child, reason: str | None) -> Child | None:
        """Write the unhealthy reason to exactly this object (preconditions: UID and version); None removes the reason.

        Returns the written object; None if it is gone or no longer a child of that Stack. Updates the cache. Raises
        `ApiStatusError` with 409 if the object keeps changing.
        """

    async def list_children(
        self, kind: Kind, stack_uid: str, *, namespace: str = "", whole: bool = False
    ) -> list[Child]:
        """List live objects from the server; the cache is updated without a call to the listener.

        A kind that is no longer served has no objects. namespace: of the Stack, see `follow`; whole: return all fields except the status, which the cache does
        not store.
        """

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account may do that (SelfSubjectAccessReview). name: of the object, "" for all."""

    async def may_get(self, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account of that boundary may get the object (SubjectAccessReview). name: "" for all."""

    def watch_trigger(self, cause: RetryTrigger) -> None:
        """Report later changes to `on_retry_trigger`, as far as the account may see them; cheap if already watched."""

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """Retain the watches of these triggers and end all other trigger watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigRef:
    """The key of a Secret, in the namespace of the Stack, that contains a kubeconfig."""

    name: str
    key: str = ""
    """"": `value`, else `value.yaml`."""


@dataclass(slots=True)
class ParsedSpec:
    """A parsed spec until its first use."""

    spec: Object | None

    def take(self) -> Object | None:
        """Return the spec, and keep it no longer; None if it was taken before."""
        spec, self.spec = self.spec, None
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class StackObject:
    """A Stack as cached from the management cluster, or a ResourceGroup in the form of one."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    kind: str = names.STACK
    """The kind of the object: `Stack` or `ResourceGroup`. The spec of a group is that of a Stack with the same result."""
    parent: str = ""
    """The UID in the Stack's parent label; "" for none. Any user may have written it."""
    author: str = ""
    """The field manager of the last spec write: `kubectl-client-side-apply`, `kustomize-controller` …"""
    service_account: str = ""
    """The ServiceAccount that the spec names; "" for none."""
    kubeconfig: KubeconfigRef | None = None
    """What the spec says of another cluster; None for this one."""
    packed_spec: bytes = field(repr=False)
    """JSON of the spec without template and parameters. JSON needs a fifth of the memory of a parsed template."""
    packed_template: bytes = field(default=b"", repr=False)
    """JSON of the template; empty if the spec has none. Apart, because many Stacks have an equal one, which they share."""
    packed_parameters: bytes = field(default=b"", repr=False)
    """JSON of the parameters; empty if the spec has none. Apart, because they may be long and few need them."""
    packed_status: bytes = field(repr=False)
    parsed_spec: Object | None = field(default=None, repr=False, compare=False)
    """See `with_parsed_spec`."""
    arrived_spec: ParsedSpec | None = field(default=None, repr=False, compare=False)
    """The spec as it was parsed from its event; None if it is not kept."""
    phase: str = ""
    """The phase in the status."""
    true_conditions: tuple[str, ...] = ()
    """The conditions in the status that are True and that metrics show."""
    in_progress_since: str = ""
    """Since when the status says that an action is in progress; "" for none."""
    is_size_scaled: bool = False
    """Of a group: whether its size was written through the scale subresource, so that no user states it."""
    defect: str = ""
    """Why `spec` lacks unreadable parts; "" if it is complete."""

    @property
    def owner_key(self) -> str:
        """Return its key within the namespace, see `hearth.model.names.owner_key`."""
        return names.owner_key(self.kind, self.name)

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup."""
        return self.kind == names.GROUP_KIND

    @property
    def spec(self) -> Object:
        """Parse the spec at every call; too slow for every reconcile."""
        if self.parsed_spec is not None:
            return self.parsed_spec
        spec = self.settings
        if self.packed_template:
            spec["template"] = orjson.loads(self.packed_template)
        if self.packed_parameters:
            spec["parameters"] = orjson.loads(self.packed_parameters)
        return spec

    @property
    def settings(self) -> Object:
        """Parse the spec without template and parameters at every call, in microseconds."""
        settings: Object = orjson.loads(self.packed_spec)
        return settings

    @property
    def spec_size(self) -> int:
        """Return the bytes of the spec as JSON."""
        return len(self.packed_spec) + len(self.packed_template) + len(self.packed_parameters)

    def with_parsed_spec(self) -> StackObject:
        """Return the same Stack with its spec parsed once, for work that reads it several times and never changes it."""
        arrived = self.arrived_spec.take() if self.arrived_spec is not None else None
        return dataclasses.replace(self, parsed_spec=arrived or self.spec, arrived_spec=None)

    @property
    def status(self) -> Object:
        """Parse the last observed status at every call."""
        status: Object = orjson.loads(self.packed_status)
        return status


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthMarkObject:
    """A HealthMark as cached from the management cluster."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    written_at: str
    """Time of the last spec write; RFC 3339, UTC, whole seconds."""
    spec: Object
    status: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A ControllerRevision of a Stack, as described by its metadata."""

    name: str
    number: int
    hash: str
    """Keyed hash of the definition."""
    kinds: frozenset[str]
    """`apiVersion/Kind` of every kind applied up to this revision: `v1/ConfigMap`, `apps/v1/Deployment`."""
    namespace: str = ""
    owner: str = ""
    """UID of the Stack in the owner reference; "" for none."""
    signature: str = ""
    """See `hearth.engine.verified_revisions`."""
    parts: int = 0
    """Further objects that contain the definition."""


class ManagementCluster(Protocol):
    """The cluster of the Stacks."""

    def find_stack(self, uid: str) -> StackObject | None:
        """Return the Stack; None if it is gone."""

    def stacks(self) -> Collection[str]:
        """Return the UIDs of all Stacks of this process; `find_stack` finds no others."""

    @property
    def tree(self) -> StackTree:
        """The nesting of all known Stacks, including those of other processes."""

    def has_listed(self, kind: str) -> bool:
        """Return whether all Stacks, or all ResourceGroups, are known. The operator may lack the right to one of them."""

    def is_other_shard_uid(self, uid: str) -> bool:
        """Return whether another process is responsible for a Stack of this UID."""

    def is_other_shard_name(self, namespace: str, name: str, *, kind: str = names.STACK) -> bool:
        """Return whether another process is responsible for a Stack of this name."""

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Return all revisions with that Stack's label by rising number, from any writer.

        See `hearth.engine.verified_revisions`.
        """

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """Store a revision owned by the Stack. An existing revision of that name stays unchanged and is returned."""

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """Return `{"template": …, "parameters": …}` as stored, and `sensitive` if present."""

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Delete the revision; ignore one that is gone."""

    async def add_finalizer(self, stack: StackObject) -> None:
        """Add the operator's finalizer. Raises `ApiStatusError` with 409 if the Stack changed; read it again."""

    async def remove_finalizer(self, stack: StackObject) -> None:
        """Remove the operator's finalizer; ignore a Stack that is gone."""

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """Merge-patch the status; None removes a key. Ignores a Stack that is gone."""

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the `data` of a definition's ConfigMap or Secret (a Secret's still in base64).

        user: the user who reads it, never from a cache; "" for the operator. The object is watched afterward while any reader follows it.
        """

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the `binaryData` of a definition's ConfigMap, in base64; watched as `get_source` says."""

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """Set all sources of a Stack. Sources without a reader are no longer watched."""

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:
        """Return the Stack's sources without a watch; their changes are noticed late."""

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post a core/v1 Event about the Stack; never raises."""

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """Post a core/v1 Event about a followed source; never raises."""


class HealthMarkClient(Protocol):
    """The HealthMarks of the management cluster."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark; None if it is gone."""

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; ignore one that is gone.

        Raises `ApiStatusError` with 409 if the HealthMark changed.
        """


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Run `action` in the engine's loop after `delay` seconds; return a function that cancels it."""


class Evaluations(Evaluator, ScriptEvaluator, Protocol):
    """Evaluator of slow expressions, for one Stack at a time. Callers call `begin` before any evaluation."""

    def begin(self, stack_uid: str) -> None:
        """Assign the following evaluations to that Stack.

        When results are ready, the queue contains `DirtyScope.EVALUATED` for the Stack, which then asks again.
        """

    async def wait(self, stack_uid: str) -> None:
        """Wait until no evaluation of that Stack is pending."""

    def forget(self, stack_uid: str) -> None:
        """Drop the state of a deleted Stack."""


class Observer(Protocol):
    """Receiver of metrics from all layers; must be quick and never raises."""

    def begin_reconcile(self) -> object | None:
        """Record the start of a reconcile; the result identifies its trace, None if there are no traces.

        Requests of this task, and of tasks that it starts, belong to it until `on_reconcile`.
        """

    def resume_reconcile(self, trace: object) -> None:
        """Assign the following requests of this task to that reconcile; None: to none."""

    def on_reconcile(self, *, result: str, seconds: float, stack: StackObject | None = None) -> None:
        """Record a completed reconcile. result: one of a few words (`idle`, `changed`, `error` …)."""

    def on_dequeue(self, seconds: float) -> None:
        """Record the seconds that a write of a child waited in the queue."""

    def on_event_to_write(self, seconds: float) -> None:
        """Record the seconds from an event to the write of a child that it causes."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """Record an answered request. code: 0 for no answer; verb: `apply`, `delete`, `list` and so on."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """Record the restart of a watch. reason: one of a few words."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Record an object from the server that the cache skips. reason: one of a few words."""

    def on_limit(self, limit: str) -> None:
        """Record a limit that was reached. limit: one of the names in `docs/limits.md`."""
