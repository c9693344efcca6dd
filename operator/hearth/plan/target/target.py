"""The target revision of a Stack and its cause: the spec, a requested rollback, or an automatic rollback.

A rollback changes only the target revision. `status` stores all facts that cannot be derived from the spec, before the
first write that depends on them.
"""

from __future__ import annotations

import enum

from hearth.model import value_class
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ClearedBreakpoints

EMPTY_REVISION = 0
"""The number of the revision without objects: the target of the rollback of a failed first create."""


class TargetCause(enum.StrEnum):
    """Reason for the target revision; `cause` in the status."""

    SPEC = "Spec"
    """The target is the definition in the spec."""
    ROLLBACK = "Rollback"
    """The user requested it by `spec.rollback.toRevision`."""
    AUTOMATIC = "AutomaticRollback"
    """The target is the last completed revision, because the definition in the spec failed."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RestoredClaim:
    """A claim of a snapshot, and the VolumeSnapshot that it gets its content from."""

    resource: str
    snapshot: str
    claim: str = ""
    """The name of a claim that the StatefulSet of the resource made, or "" if the claim is the object of the resource."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """A rollback that a user requests. It applies to the definition in the spec at that time, and to no later one.

    A rollback to a snapshot restores its volumes once: first all workloads are suspended, then the claims are replaced.
    """

    to_revision: int
    """The value of `toRevision`."""
    spec_hash: str
    """Hash of the definition in the spec at that time; "" while it is unknown."""
    revision: int
    """The resolved revision, which never changes. `EMPTY_REVISION` if it does not exist: the request is then
    rejected."""
    snapshot: str = ""
    """The name of the StackSnapshot; "" for a rollback to a revision."""
    snapshot_uid: str = ""
    token: str = ""
    """Distinguishes this restore from every other one."""
    claims: tuple[RestoredClaim, ...] = ()
    is_halted: bool = False
    """Whether the workloads were suspended, so that the claims may be replaced."""
    is_restored: bool = False
    """Whether the restore completed, or a later definition ended it. The claims then stay as they are."""
    is_ended: bool = False
    """Whether a retry ended it after its completion: the definition in the spec applies again, although it is
    unchanged."""

    @property
    def is_resolved(self) -> bool:
        """Return whether it could be resolved."""
        return self.revision != EMPTY_REVISION

    def is_overridden(self, spec_hash: str) -> bool:
        """Return whether a definition of that hash takes precedence. An unknown hash, "", is not a change."""
        return self.is_ended or bool(self.spec_hash and spec_hash and self.spec_hash != spec_hash)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRevisions:
    """Revisions that completed."""

    last: int | None = None
    previous: int | None = None
    """The last completed revision other than `last`."""
    is_known: bool = True
    """Whether the history is complete. Entries of an earlier process may be lost."""

    @property
    def has_target(self) -> bool:
        """Return whether a rollback has a target. That is never revision 0 if a revision may have completed."""
        return self.last is not None or self.is_known

    def note(self, revision: int) -> CompletedRevisions:
        """Add a completed revision, except revision 0: a request for the last revision never means it."""
        return (
            self if revision in (self.last, EMPTY_REVISION) else CompletedRevisions(last=revision, previous=self.last)
        )

    def find_other(self, revision: int | None) -> int | None:
        """Return the last completed revision other than `revision`."""
        return self.previous if self.last == revision else self.last


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTransition:
    """The last change of `spec.suspended`."""

    is_suspended: bool
    """Whether the operator suspends workloads; False while it resumes them."""
    since: float
    """Whole seconds since the epoch."""
    is_completed: bool = False
    """Whether the transition completed once. All later writes are repairs."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last completed batch of the rolling update of one collection."""

    collection: str
    since: float
    """When it completed, in seconds since the epoch."""
    updated: int
    """How many members were up to date at that time."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DetachedSet:
    """A StatefulSet that is deleted without its Pods and claims. Its successor needs its name to take them over."""

    resource: str
    incarnation: int
    namespace: str
    name: str
    uid: str
    """UID of the deleted StatefulSet."""
    replicas: int | None = None
    """The number of replicas that its successor starts with, or None."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target revision with its cause and state. Equal targets are identical."""

    revision: int
    cause: TargetCause
    since: float
    """Whole seconds since the epoch."""
    is_first: bool = False
    """Whether the Stack had no earlier target: the action is then Create."""
    is_completed: bool = False
    """Whether the target completed once. All later writes are repairs."""
    is_cleanup_waived: bool = False
    """Whether the user waived the protection of obsolete objects."""
    protected_revisions: tuple[int, ...] = ()
    """The earlier completed revisions, whose objects stay until this target completes."""
    rollback: RollbackRequest | None = None
    """The last handled rollback request, even while a later definition overrides it."""
    failed_hash: str = ""
    """Hash of the failed definition in the spec; only for an automatic rollback."""
    failure: str = ""
    """Message of the failure."""
    failure_reason: str = ""
    cleared: ClearedBreakpoints = active_environment.NONE_CLEARED
    """The breakpoints cleared under this target, or under the target that this one only resizes."""
    breakpoint_key: str = ""
    """The key that records the stops after its changes; "" for the number of its revision."""
    earlier_revision: int = 0
    """The highest revision that may have run before this target, if it is not lower than its own revision; otherwise 0."""
    suspend: SuspendTransition | None = None
    """The last change of `spec.suspended`, if it determines the current action of this target."""
    cluster: str = ""
    """URL of the API server that has the objects; "" for the Stack's own."""
    definition_revision: int = 0
    """Of an instance: the revision of its StackDefinition; 0 for other Stacks."""
    removed: tuple[int, ...] = ()
    """Of a group: indices that members no longer use."""
    surge: int = 0
    """Of a group: the members beyond its size, until a rolling update is done."""
    batches: tuple[LastBatch, ...] = ()
    """The last completed batch of each rolling update of this target."""

    detached: tuple[DetachedSet, ...] = ()
    """The StatefulSets that are deleted without their Pods and claims, until their successors exist."""

    @property
    def started_at(self) -> float | None:
        """Return the start of the current action in seconds since the epoch, or None if it completed."""
        if self.suspend is not None and not (self.suspend.is_completed and not self.suspend.is_suspended):
            return None if self.suspend.is_completed else self.suspend.since
        return None if self.is_completed else self.since

    @property
    def restore(self) -> RollbackRequest | None:
        """Return the restore of volumes in progress; None without one."""
        request = self.rollback
        if self.cause is not TargetCause.ROLLBACK or request is None or request.revision != self.revision:
            return None
        return request if request.claims and not request.is_restored else None

    @property
    def highest_revision(self) -> int:
        """Return the highest revision that may have been a target until now."""
        return max(self.revision, self.earlier_revision)

    @property
    def is_rollback(self) -> bool:
        """Return whether the target differs from the definition in the spec."""
        return self.cause is not TargetCause.SPEC
