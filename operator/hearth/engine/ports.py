"""Ports of the engine: one protocol per role, so that each caller depends only on the role that it needs.

`hearth.kube` implements them for a real API server, `hearth.preview` for a copy of one, and the tests for a fake
cluster. Contract tests run the same cases against the real API server and the fake cluster. A request raises
`ApiStatusError` for any response other than 2xx, `Unreachable` if there is no response, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hearth.engine.cluster_objects import HealthMarkObject, Revision, StackObject, StackPlanObject, StackSnapshotObject
from hearth.model import names
from hearth.model.child import Child, Object, Path
from hearth.model.external_objects import ExternalQuery, ExternalView
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.stack_tree import StackTree
from hearth.model.tenancy import Boundary
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.plan.target.change_plans import PreviewedChange
from hearth.template.cel.evaluation import Evaluator, ScriptEvaluator

if TYPE_CHECKING:
    from hearth.template.instances.instance_form import InstanceForms


class CacheListener(Protocol):
    """Receiver of changes in one cluster of children. Called in the engine's event loop, never from another thread; must not
    block.
    """

    def on_child(self, stack_uid: str, resource: str) -> None:
        """Handle a child with these labels that was added, changed or deleted."""

    def on_kinds(self) -> None:
        """Handle a change of the set of served kinds."""

    def on_synced(self, kind: Kind) -> None:
        """Handle a cache that now contains what `follow` requested, or a denial that `find_denial` explains."""

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """Handle a trigger of `watch_trigger` that changed, or may have changed before its watch started."""


class ClusterKinds(Protocol):
    """The kinds that a cluster serves, and their schemas."""

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Make the schemas of these kinds available in `kinds.find_schema`.

        Schemas are cached. An unavailable schema is left out.
        """

    async def refresh_kinds(self) -> None:
        """Query the served kinds again (rate-limited; called on a miss)."""

    async def is_kind_going(self, kind: Kind) -> bool:
        """Whether the kind is being removed, or is no longer served, so that its objects disappear one by one."""


class ClusterChildren(Protocol):
    """The caches of children, and of external objects, which Stacks only read."""

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Cache all labeled objects of this kind, with at least these fields of each.

        namespace: of the Stack. A kind that the operator watches in single namespaces is watched in that one.
        Returns True if the cache is synced. Otherwise returns False, and `on_synced` is called later. The set of fields
        only grows.
        """

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return the server's reason for denying the watch of a followed kind, or "" if no denial is known."""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return whether the last attempt to list a followed kind failed, other than by a denial."""

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return all cached objects of all followed kinds with this Stack's label, by resource name (the label's value)."""

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return the same for one resource; cheap."""

    async def list_children(
        self, kind: Kind, stack_uid: str, *, namespace: str = "", whole: bool = False
    ) -> list[Child]:
        """List live objects from the server; the cache is updated without a call to the listener.

        A kind that is no longer served has no objects. namespace: of the Stack, see `follow`; whole: return all fields except
        the status, which the cache does not store.
        """

    def follow_externals(self, stack_uid: str, queries: Mapping[str, ExternalQuery], *, namespace: str) -> None:
        """Set everything that a Stack only reads, by name in its template; cheap if unchanged. namespace: of the Stack.

        `on_child` is called with the name when a field that it reads changes, at once for the first of several changes.
        Objects that no Stack reads are no longer watched.
        """

    def find_external(self, stack_uid: str, name: str) -> ExternalView:
        """Return the cached objects that a Stack reads under a name of its template; cheap."""


class ClusterWrites(Protocol):
    """Writes of children. When a write returns, the cache contains its result."""

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply a complete manifest (name, namespace and labels included) by server-side apply.

        Returns the object in the answer, which is already in the cache. force: take fields of other field managers.
        """

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Write a merge patch of the live object. Its metadata contains preconditions and `managedFields`.

        Returns the object in the response, which is already in the cache.
        """

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """Delete exactly this object (preconditions: UID and version). One that owns Pods exists until they are
        deleted.

        keeps_dependents: orphan the objects that it owns instead of deleting them. An object that changed since is
        deleted too, unless the change forbids deletion: `ApiStatusError` with 409. Returns True if the object no longer
        exists, also if it was deleted before; False while finalizers remain. Updates the cache.
        """

    async def release(self, child: Child) -> None:
        """Remove the operator's labels and annotations from exactly this object (preconditions: UID and version).

        Changes nothing else. Ignores an object that was deleted or is no longer a child of that Stack. Updates the
        cache. Raises `ApiStatusError` with 409 if the object keeps changing.
        """

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """Write the unhealthy reason to exactly this object (preconditions: UID and version); None removes the reason.

        mark_id: the ID of the HealthMark that caused it; "" for none. Returns the written object, or None if it was
        deleted or is no longer a child of that Stack. Updates the cache. Raises `ApiStatusError` with 409 if the object
        keeps changing.
        """


class ClusterTrials(Protocol):
    """Predicts the effect of a write: dry runs."""

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Return the result of a forced server-side apply without writing it."""

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """Create the object in a strict dry run; return if nothing but an existing object with that name prevents it."""

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """Return the object as it would be created under a generated name. Strict; writes nothing."""

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Return the result of a merge patch of the live object without writing it."""


class ClusterRequests(Protocol):
    """Requests about single objects. They bypass all caches."""

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """Return the complete live object. Raises `ApiStatusError` with code 404 if it does not exist."""

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Create an object that is not a child; return it as stored. Raises `ApiStatusError` with 409 if the name is
        taken.
        """

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Write a merge patch of an object that is not a child, with preconditions in its metadata. Return the stored
        object.
        """

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Delete exactly this object, which is not a child (precondition: UID); ignore one that was deleted.

        Raises `ApiStatusError` with 409 if another object has the name.
        """

    async def list_pods(self, namespace: str, *, labels: str) -> list[Object]:
        """Return the first pods with these labels, a selector; the account needs the right to list them."""

    async def get_log_end(self, ref: ObjectRef, *, container: str, limit: int) -> str:
        """Return the last lines of the log of a container, `limit` bytes at most. ref: the pod."""


class ClusterRights(Protocol):
    """The rights of an account."""

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account may do that (SelfSubjectAccessReview). name: of the object, "" for all."""

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account of that boundary may do that (SubjectAccessReview). name: "" for all objects."""


class ClusterTriggers(Protocol):
    """Watches for events that a failed step waits for."""

    def watch_trigger(self, trigger: RetryTrigger) -> None:
        """Report later changes that the account may see to `on_retry_trigger`; cheap if already watched."""

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """Retain the watches of these triggers and end all other trigger watches."""


class WorkloadCluster(
    ClusterKinds,
    ClusterChildren,
    ClusterWrites,
    ClusterTrials,
    ClusterRequests,
    ClusterRights,
    ClusterTriggers,
    Protocol,
):
    """The cluster of the children, with all its roles: one instance per credentials, never module state."""

    def acting_as(self, user: str) -> WorkloadCluster:
        """Return the same cluster, whose requests about single objects are made as that user; "" for the operator.

        Watches, lists, discovery, caches and connections are shared. Cheap.
        """


class ManagementStacks(Protocol):
    """The cache of Stacks."""

    def find_stack(self, uid: str) -> StackObject | None:
        """Return the Stack, or None if it was deleted."""

    async def open_stack(self, stack: StackObject) -> StackObject:
        """Return a Stack with its spec parsed, for work that reads it several times and never changes it.

        Reads it from the API server if it is not in memory, possibly in a newer state. Raises `ApiStatusError` or
        `Unreachable`.
        """

    def stacks(self) -> Collection[str]:
        """Return the UIDs of all Stacks of this process; `find_stack` finds no others."""

    @property
    def tree(self) -> StackTree:
        """The nesting of all known Stacks, including Stacks of other processes."""

    def has_listed(self, kind: str) -> bool:
        """Return whether all Stacks, or all ResourceGroups, are known. The operator may lack the right to one of them."""

    def find_forms(self, key: str) -> InstanceForms | None:
        """Return the revisions of the StackDefinition that makes a kind, or None if none does. key: `Kind.group`."""

    def complete_kind(self, name: str) -> str:
        """Return `Kind.group` of the only kind with that name that a StackDefinition creates, otherwise ""."""

    def is_other_shard_uid(self, uid: str) -> bool:
        """Return whether another process is responsible for a Stack of this UID."""

    def is_other_shard_name(self, namespace: str, name: str, *, kind: str = names.STACK) -> bool:
        """Return whether another process is responsible for a Stack of this name."""


class ManagementRevisions(Protocol):
    """The stored revisions of Stacks."""

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Return all revisions with that Stack's label by rising number, from any writer.

        See `hearth.engine.verified_revisions`.
        """

    def find_former_revisions(self, stack: StackObject) -> Collection[tuple[str, Revision]]:
        """Return all revisions that other Stacks of this kind, namespace and name had, each after the UID of its Stack. From
        any writer; cheap.
        """

    async def adopt_revision(self, stack: StackObject, revision: Revision) -> None:
        """Make the Stack the owner of a revision, so that it is deleted with it; ignore one that was deleted."""

    async def annotate_revision(self, stack: StackObject, revision: Revision, annotation: str, text: str) -> None:
        """Write an annotation of a revision, for example the record of finished work; ignore a deleted one."""

    async def get_revision(self, stack: StackObject, name: str) -> Revision | None:
        """Return a live revision in the Stack's namespace, past the cache, or None if it does not exist."""

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """Store a revision owned by the Stack. An existing revision with that name stays unchanged and is returned.

        Raises InvalidDefinition if the definition is too large to be stored, TamperedRevision if another object has the
        name of a further object.
        """

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """Return `{"template": …, "parameters": …}` as stored, and `sensitive` if present."""

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Delete the revision; ignore one that was deleted."""


class ManagementWrites(Protocol):
    """Writes of Stacks, and Events."""

    async def add_finalizer(self, stack: StackObject) -> None:
        """Add the operator's finalizer. Raises `ApiStatusError` with 409 if the Stack changed; read it again."""

    async def remove_finalizer(self, stack: StackObject) -> None:
        """Remove the operator's finalizer; ignore a Stack that was deleted."""

    async def delete_stack(self, stack: StackObject) -> None:
        """Delete exactly this version of a Stack; ignore one that was deleted. Raises `ApiStatusError` with 409 if it
        changed.
        """

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """Merge-patch the status; None removes a key. Ignores a Stack that was deleted."""

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post a core/v1 Event about the Stack; never raises."""

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """Post a core/v1 Event about a followed source; never raises."""


class ManagementSources(Protocol):
    """Reads the sources of definitions: ConfigMaps, Secrets, StackTemplates."""

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the `data` of a definition's ConfigMap or Secret (a Secret's still in base64).

        user: the reading user, never from a cache; "" for the operator. The object is watched afterward while any
        reader follows it.
        """

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the `binaryData` of a definition's ConfigMap, in base64; see `get_source` for its watch."""

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """Set all sources of a Stack. Sources without a reader are no longer watched."""

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:
        """Return the Stack's sources without a watch, whose changes are detected with a delay."""

    def find_source_creators(self, stack_uid: str) -> frozenset[str]:
        """Return the Stacks that created the sources of a Stack, by UID, according to labels."""


class ManagementCluster(ManagementStacks, ManagementRevisions, ManagementWrites, ManagementSources, Protocol):
    """The cluster of the Stacks, with all its roles."""


class HealthMarkClient(Protocol):
    """The HealthMarks of the management cluster."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark, or None if it was deleted."""

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """Write the annotation that proves the mark to be resolved; ignore a deleted mark."""

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; ignore one that was deleted.

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

    def on_notification(self, result: str) -> None:
        """Record the end of a notification. result: `sent`, `failed` or `dropped`."""


class SnapshotClient(Protocol):
    """The StackSnapshots of the management cluster, and the watch of their VolumeSnapshots."""

    @property
    def is_synced(self) -> bool:
        """Whether all StackSnapshots are known."""

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot, or None if it was deleted."""

    def find_snapshot_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot with that name, or None if it does not exist."""

    def snapshots(self) -> Collection[str]:
        """Return the UIDs of all StackSnapshots."""

    def snapshots_of(self, namespace: str, owner_key: str) -> Sequence[StackSnapshotObject]:
        """Return the StackSnapshots that name the Stack or instance with that key; cheap."""

    def watch_volumes(self, kind: Kind) -> None:
        """Report changes of VolumeSnapshots with the label of a StackSnapshot from now on. kind: VolumeSnapshot."""

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """Merge-patch the status of a StackSnapshot; ignore one that was deleted.

        Raises `ApiStatusError` with 409 if the StackSnapshot changed.
        """

    async def write_snapshot_content(self, snapshot: StackSnapshotObject, content: str) -> None:
        """Write the annotation that records the content of a complete StackSnapshot; ignore a deleted one."""

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a StackSnapshot; ignore one that was deleted.

        Raises `ApiStatusError` with 409 if the StackSnapshot changed.
        """


class StackPlanClient(Protocol):
    """The StackPlans of the management cluster."""

    @property
    def is_synced(self) -> bool:
        """Whether all StackPlans are known."""

    @property
    def is_approvable(self) -> bool:
        """Whether this installation serves the webhook, which is necessary to approve a plan."""

    def plans_of(self, namespace: str, stack_uid: str) -> Sequence[StackPlanObject]:
        """Return the StackPlans in that namespace that name the Stack; cheap. None of them is verified."""

    async def create_plan(self, manifest: Object) -> StackPlanObject | None:
        """Create a StackPlan; return None if another object has its name."""

    async def write_plan_status(self, plan: StackPlanObject, status: Object) -> None:
        """Merge-patch the status of a StackPlan; ignore one that was deleted.

        Raises `ApiStatusError` with 409 if the StackPlan changed.
        """

    async def delete_plan(self, plan: StackPlanObject) -> None:
        """Delete exactly this StackPlan, if it exists."""


class ChangePreviews(Protocol):
    """Previews of changes that wait for an approval."""

    async def preview(self, stack: StackObject) -> PreviewedChange:
        """Return the steps of the change that the spec of a Stack requests, as if it were approved.

        Raises `HearthError` if the change cannot be previewed, or has too many steps for a plan.
        """


class StackDefinitionClient(Protocol):
    """The StackDefinitions of the management cluster, their CustomResourceDefinitions, and their instances."""

    async def list_definitions(self) -> list[Object]:
        """Return all StackDefinitions; none if the kind is not served."""

    def follow(self, on_change: Callable[[str, str], None]) -> None:
        """Report each state of each StackDefinition by its name and UID from now on, including its deletion."""

    async def list_revisions(self, uid: str, namespace: str) -> list[Revision]:
        """Return the stored revisions of the StackDefinition with that UID, in ascending order."""

    async def get_definition(self, name: str) -> Object | None:
        """Return a StackDefinition, or None if it does not exist."""

    async def write_finalizers(self, raw: Object, finalizers: list[str]) -> Object | None:
        """Set the finalizers of a StackDefinition (precondition: its version). Returns None if it no longer exists."""

    async def write_definition_status(self, raw: Object, status: Object) -> None:
        """Merge-patch the status of a StackDefinition; ignore one that was deleted."""

    async def get_object(self, kind: Kind, name: str) -> Object | None:
        """Return an object without a namespace, or None if it does not exist."""

    async def apply_object(self, kind: Kind, manifest: Object) -> Object:
        """Apply an object without a namespace; return it as stored."""

    async def delete_object(self, kind: Kind, raw: Object) -> None:
        """Delete exactly this object (precondition: UID); ignore one that was deleted."""

    def serve(self, kind: Kind, forms: InstanceForms) -> None:
        """Watch the instances of a kind as Stacks from now on. forms: their revisions; more may be added later."""

    async def wait_served(self, kind: Kind) -> None:
        """Wait until all instances of the kind are known."""

    async def withdraw(self, kind: Kind) -> None:
        """Stop watching the instances of a kind; the engine ignores the remaining ones."""

    async def release_instances(self, kind: Kind) -> int:
        """Remove the operator's finalizer from all instances of a kind that is not watched; return how many had it."""

    def find_instances(self, kind: Kind) -> Collection[StackObject]:
        """Return all known instances of a kind, whichever process serves them."""

    def move(self, kind: Kind, uid: str, number: int) -> None:
        """Move an instance to another revision if this process serves it, and enqueue its Stack."""

    def renew_rights(self, kind: Kind) -> None:
        """Apply the rights of the newest revision to all instances of a kind, including those of older revisions."""


class RemoteCluster(Protocol):
    """Another cluster, as one set of credentials accesses it. Shared by all Stacks with these credentials."""

    @property
    def key(self) -> str:
        """Return a secret fingerprint of the credentials; equal for equal ones, and valid only in this process."""

    @property
    def server(self) -> str:
        """Return the URL of the API server."""

    @property
    def host(self) -> str:
        """Return host and port of the API server, for messages."""

    @property
    def namespace(self) -> str:
        """Return the only namespace that objects may be in; "" for all."""

    @property
    def cluster(self) -> WorkloadCluster:
        """Return the cluster; its kinds are unknown before `is_open`."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Return the credentials, which no message may contain."""

    @property
    def is_open(self) -> bool:
        """Return whether the served kinds were discovered once."""

    @property
    def trouble(self) -> tuple[str, str] | None:
        """Return reason and message of why the cluster cannot be used now, or None if it answers."""

    @property
    def identity(self) -> str:
        """Return an identity that no other cluster has, not even one at the same address, or "" if the credentials do not
        show it.
        """

    async def wait_open(self, seconds: float) -> None:
        """Wait at most that long until the first attempt to reach the cluster ends."""

    def note_silence(self) -> None:
        """Examine soon whether the cluster still answers, because a request got no answer."""


class RemoteClusters(Protocol):
    """The other clusters that Stacks use."""

    def use(self, stack_uid: str, namespace: str, kubeconfig: str) -> RemoteCluster:
        """Return the cluster of that kubeconfig, and keep it open until `leave`. Sends nothing itself.

        namespace: of the Stack. Raises `KubeconfigRefused` or `TooManyClusters`.
        """

    def leave(self, stack_uid: str, *, besides: str = "") -> None:
        """Release what `use` returned for that Stack, except the cluster with the key `besides`."""
