"""What the engine needs of the world, one protocol a role.

Two implementations: `hearth.kube` on a real API server, and the fake cluster of the tests. Contract tests run the same
cases against both. Every request raises `Refused` where the server answered anything but 2xx and `Unreachable` where no
answer came; nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.stack_tree import StackTree
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.template.cel.evaluation import Evaluator


class CacheListener(Protocol):
    """Whom the caches tell of changes. Called in the engine's event loop, never from another thread; must not block."""

    def on_child(self, stack_uid: str, resource: str) -> None:
        """A child with these labels came, changed or went."""

    def on_stack(self, uid: str) -> None:
        """A Stack came, changed (spec, metadata or status) or went."""

    def on_kinds(self) -> None:
        """The set of served kinds changed."""

    def on_synced(self, kind: Kind) -> None:
        """The cache of that kind now holds what was asked of it by `follow`, or `find_denial` says why it cannot."""

    def on_source(self, ref: ObjectRef) -> None:
        """A ConfigMap or Secret that a definition is read from came, changed or went."""

    def on_health_mark(self, uid: str) -> None:
        """A HealthMark came, changed or went."""

    def on_retry_trigger(self, cause: RetryTrigger) -> None:
        """What was handed to `watch_cause` changed, or may have before it could be watched."""


class WorkloadCluster(Protocol):
    """The cluster that children live in: one per credentials, never a module's state."""

    @property
    def kinds(self) -> Kinds:
        """What it serves."""

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Let `kinds.find_schema` know these kinds' schemas; cached; a schema that cannot be had is left out."""

    async def refresh_kinds(self) -> None:
        """Ask the server once more which kinds it serves (rate-limited; called on a miss)."""

    def follow(self, kind: Kind, paths: Collection[Path]) -> bool:
        """Keep a cache of all labelled objects of this kind, with at least these fields of each.

        True once that cache holds them (synced); until then False, and `on_synced` is called later. Only widens.
        """

    def find_denial(self, kind: Kind) -> str:
        """In the server's words why a kind that is followed may not be watched; "" where nothing is known of that."""

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """By resource name (the label's value) every cached object with this Stack's label, of all followed kinds."""

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """The same for one resource; cheap."""

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Server-side apply of a complete manifest (name, namespace and labels stated); the answer, already in the cache.

        force: take fields that others own.
        """

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """What the object would be after a server-side apply by force; nothing is written."""

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> None:
        """A strict dry-run create under a generated name: returns where the definition is acceptable."""

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> None:
        """A dry-run merge patch of the live object: returns where the server would take it."""

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """The live object, whole. `Refused` with code 404 where there is none."""

    async def delete(self, child: Child) -> bool:
        """Delete that very object (uid and version stated), in the background policy.

        One that changed meanwhile is deleted all the same, unless it asks to stay since then: `Refused` with 409.
        True when it is gone now (also when it already was), False while finalizers hold it. The cache follows.
        """

    async def release(self, child: Child) -> None:
        """Take all labels and annotations of ours off that very object (uid and version stated), and nothing else.

        One that is gone, or not that Stack's child any more, is fine. The cache follows. `Refused` with 409 where it
        keeps changing meanwhile.
        """

    async def mark(self, child: Child, reason: str | None) -> Child | None:
        """Write onto that very object (uid and version stated) why it is unhealthy, or take away what is written there (None).

        The object as it is then; None where it is gone, or not that Stack's child any more. The cache follows. `Refused`
        with 409 where it keeps changing meanwhile.
        """

    async def list_children(self, kind: Kind, stack_uid: str, *, whole: bool = False) -> list[Child]:
        """A live list from the server; the cache follows, and nobody is told. A kind that is no longer served has none.

        whole: with all fields of each but its status, which the cache does not keep.
        """

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str) -> bool:
        """Whether our account may do that (SelfSubjectAccessReview)."""

    def watch_trigger(self, cause: RetryTrigger) -> None:
        """From now on tell `on_cause` of its changes, as far as our account may see them; cheap where that is done already."""

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """Go on with these, and end the watches that only others needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackObject:
    """A Stack as the home cluster's cache holds it."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    parent: str = ""
    """The UID of the Stack that its label calls its parent; "" for none. Anyone may have written that."""
    author: str = ""
    """The field manager that wrote the spec last: `kubectl-client-side-apply`, `kustomize-controller` …"""
    packed_spec: bytes = field(repr=False)
    """As JSON, which takes a fifth of the memory that a template takes parsed."""
    packed_status: bytes = field(repr=False)
    phase: str = ""
    """That of the status."""
    defect: str = ""
    """Why parts of the spec cannot be read, which are missing in `spec`; "" where all of it is there."""

    @property
    def spec(self) -> Object:
        """Parsed anew at every call, so not for what every pass does."""
        spec: Object = orjson.loads(self.packed_spec)
        return spec

    @property
    def status(self) -> Object:
        """As last seen; parsed anew at every call."""
        status: Object = orjson.loads(self.packed_status)
        return status


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthMarkObject:
    """A HealthMark as the home cluster's cache holds it."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    written_at: str
    """When its spec was written last; RFC 3339, UTC, whole seconds."""
    spec: Object
    status: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A ControllerRevision of a Stack, as its metadata tell it."""

    name: str
    number: int
    hash: str
    """Of the definition, keyed."""
    kinds: frozenset[str]
    """`apiVersion/Kind` of every kind that the Stack ever applied up to it: `v1/ConfigMap`, `apps/v1/Deployment`."""
    namespace: str = ""
    owner: str = ""
    """UID of the Stack that its owner reference names; "" for none."""
    signature: str = ""
    """See `hearth.engine.verified_revisions`."""


class ManagementCluster(Protocol):
    """The cluster that the Stacks themselves live in."""

    def find_stack(self, uid: str) -> StackObject | None:
        """The Stack, or None once it is gone."""

    def stacks(self) -> Collection[str]:
        """The UIDs of all Stacks that this process works on; `find_stack` finds no others."""

    @property
    def tree(self) -> StackTree:
        """Which Stack is nested in which, of all that are known, other processes' too."""

    def is_other_shard_uid(self, uid: str) -> bool:
        """Whether another process works on a Stack of this UID."""

    def is_other_shard_name(self, namespace: str, name: str) -> bool:
        """Whether another process works on a Stack of this name."""

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """All that carry that Stack's label, by rising number, whoever wrote them; see `hearth.engine.verified_revisions`."""

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """Store it, owned by the Stack; one that exists already under that name stays as it is, and is the result."""

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """`{"template": …, "parameters": …}` as stored, and `sensitive`, where there is any."""

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Forget it; one that is gone is fine."""

    async def add_finalizer(self, stack: StackObject) -> None:
        """Add ours. `Refused` with 409 where the Stack changed meanwhile: look again."""

    async def remove_finalizer(self, stack: StackObject) -> None:
        """Take ours away; a Stack that is gone is fine."""

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """Merge-patch the status; a key with None is taken away. A Stack that is gone is fine."""

    async def get_source(self, ref: ObjectRef) -> Mapping[str, str]:
        """The `data` of a ConfigMap or Secret that a definition is read from (a Secret's as it is: in base 64).

        It is watched from then on, for as long as somebody follows it.
        """

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """These are all the sources that a Stack reads; those that no Stack reads any longer are not watched on."""

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:
        """Of these the ones without a watch, whose changes are noticed late."""

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post a core/v1 Event about the Stack; never raises."""

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """The same about a source that is followed."""


class HealthMarkClient(Protocol):
    """The HealthMarks of the cluster that Stacks live in."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """The HealthMark, or None once it is gone."""

    def marks(self) -> Collection[str]:
        """The UIDs of all HealthMarks."""

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; one that is gone is fine. `Refused` with 409 where it changed meanwhile."""


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Run `action` in the engine's loop after `delay` seconds; the result cancels it."""


class Evaluations(Evaluator, Protocol):
    """Evaluates expressions that may take long, for one Stack at a time: `begin` comes before whatever evaluates."""

    def begin(self, stack_uid: str) -> None:
        """What is asked from now on is that Stack's, which is told by `EVALUATED` in the inbox when it is to ask again."""

    async def wait(self, stack_uid: str) -> None:
        """Returns once nothing is to come for that Stack."""

    def forget(self, stack_uid: str) -> None:
        """The Stack is gone."""


class Observer(Protocol):
    """Whom the layers tell what they did, for metrics; must be quick and never raises."""

    def on_reconcile(self, *, result: str, seconds: float) -> None:
        """A pass ended. result: one word, of a handful that there are (`idle`, `changed`, `error` …)."""

    def on_dequeue(self, seconds: float) -> None:
        """A write of a child was begun after so long in the queue."""

    def on_event_to_write(self, seconds: float) -> None:
        """A write of a child is sent now, so long after what led to it was heard of."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """The API server answered a request after so long; code 0: no answer came. verb: `apply`, `delete`, `list` and so on."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """A watch begins anew. reason: one word, of a handful that there are."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """An object that the server sent is not taken in. reason: one word, of a handful that there are."""

    def on_limit(self, limit: str) -> None:
        """A limit was reached. limit: its name in `docs/limits.md`, one of a handful."""
