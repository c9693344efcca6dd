"""The stored revisions of one Stack, divided into verified and unverified ones.

The signature covers a revision's metadata, including the hash of its definition. Readers of the definition compare it
to that hash.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.ports import ManagementRevisions
from hearth.model import limits, value_class
from hearth.model.text import enumeration
from hearth.plan.ownership.keyed_hash import HashFunction

PURPOSE = "revision"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSet:
    """The revisions with one Stack's label in the Stack's namespace."""

    verified: tuple[Revision, ...] = ()
    """Revisions signed by this operator for this Stack, in ascending order. Only these are used."""
    tampered: tuple[Revision, ...] = ()
    """Revisions neither signed nor stored by an earlier version. Another writer changed or created them."""
    unsigned: tuple[Revision, ...] = ()
    """Revisions stored by a version without signatures, or signed with another key."""

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind that any revision may have applied. An unverified revision can only add kinds to check."""
        unverified = (each for each in (*self.tampered, *self.unsigned) if len(each.kinds) <= limits.REVISION_KINDS)
        hints = frozenset[str]().union(*(each.kinds for each in list(unverified)[: limits.REVISION_HINTS]))
        return merge_kinds(self.verified) | hints

    @property
    def last_number(self) -> int:
        """The highest number in use; 0 for none. Implausible numbers of unverified revisions are ignored."""
        numbers = [each.number for each in self.verified]
        hints = (each.number for each in (*self.tampered, *self.unsigned))
        return max([0, *numbers, *(number for number in hints if number <= limits.HINTED_REVISION)])

    def find(self, number: int) -> Revision | None:
        """Return the verified revision of that number."""
        return next((each for each in self.verified if each.number == number), None)

    def find_unverified(self, number: int) -> Revision | None:
        """Return the unverified revision of that number if no verified one has it."""
        if number <= 0 or self.find(number) is not None:
            return None
        return next((each for each in (*self.tampered, *self.unsigned) if each.number == number), None)

    def knows_all_kinds(self, needed: Collection[int]) -> bool:
        """Return whether `kinds` is complete: no revision is tampered with and none in `needed` is missing.

        Each revision lists the kinds of all revisions before it.
        """
        numbers = {each.number for each in self.verified}
        return bool(numbers) and not self.tampered and numbers.issuperset(needed)


def load(management_cluster: ManagementRevisions, hashes: HashFunction, stack: StackObject) -> RevisionSet:
    """Load all revisions of a Stack."""
    return sort(management_cluster.revisions(stack.uid), hashes, stack)


def sort(revisions: Iterable[Revision], hashes: HashFunction, stack: StackObject) -> RevisionSet:
    """Divide revisions into verified and unverified ones. Those in other namespaces are not the Stack's; ignore them."""
    verified: list[Revision] = []
    tampered: list[Revision] = []
    unsigned: list[Revision] = []
    for revision in revisions:
        if revision.namespace != stack.namespace:
            continue
        if is_verified(revision, stack, hashes):
            verified.append(revision)
        elif not revision.signature and not hashes.is_comparable(revision.hash):
            unsigned.append(revision)
        else:
            tampered.append(revision)
    return RevisionSet(verified=tuple(verified), tampered=tuple(tampered), unsigned=tuple(unsigned))


def sign(revision: Revision, stack: StackObject, hashes: HashFunction) -> Revision:
    """Return the revision with this operator's signature."""
    return dataclasses.replace(revision, signature=hashes.sign(PURPOSE, describe(revision, stack)))


def is_verified(revision: Revision, stack: StackObject, hashes: HashFunction) -> bool:
    """Return whether this operator stored the revision for that Stack, with this number, kinds and definition."""
    # The garbage collector removes the owner from objects that a deletion with `--cascade=orphan` leaves.
    is_owned = revision.owner == stack.uid or (stack.deleting and not revision.owner)
    return is_owned and is_signed(revision, stack, hashes)


def is_orphaned(revision: Revision, stack: StackObject, hashes: HashFunction) -> bool:
    """Return whether the revision of that Stack has lost its owner, which every revision has from its creation on."""
    return not revision.owner and is_signed(revision, stack, hashes)


def is_signed(revision: Revision, stack: StackObject, hashes: HashFunction) -> bool:
    """Return whether this operator signed the revision for that Stack, regardless of its present owner."""
    # Comparing the prefix first avoids a digest for an obviously unsigned revision.
    is_comparable = revision.namespace == stack.namespace and hashes.is_comparable(revision.signature)
    return is_comparable and hashes.is_signed(PURPOSE, describe(revision, stack), revision.signature)


def has_orphaned(management_cluster: ManagementRevisions, hashes: HashFunction, stack: StackObject) -> bool:
    """Return whether a revision in the cache has lost its owner."""
    return any(is_orphaned(each, stack, hashes) for each in management_cluster.revisions(stack.uid))


async def find_orphaned(management_cluster: ManagementRevisions, hashes: HashFunction, stack: StackObject) -> bool:
    """Return whether the deletion of a Stack was requested with `--cascade=orphan`.

    The garbage collector's finalizer shows this, but it is removed once no revision has an owner, perhaps before the
    operator observes the Stack. In that case, revisions without an owner show it. They are read live, because the cache
    may still contain their owner.
    """
    if not stack.deleting:
        return False
    if stack.is_orphaning or has_orphaned(management_cluster, hashes, stack):
        return True
    for revision in reversed(management_cluster.revisions(stack.uid)):
        if is_signed(revision, stack, hashes):
            live = await management_cluster.get_revision(stack, revision.name)
            if live is not None:
                return is_orphaned(live, stack, hashes)
    return False


async def delete_all(management_cluster: ManagementRevisions, hashes: HashFunction, stack: StackObject) -> None:
    """Delete the revisions of a Stack that leaves its objects.

    The garbage collector leaves them behind. It even waits for them forever if it cannot change one: the API server rejects
    every patch of a ControllerRevision whose `data` it would write in another order.
    """
    for revision in management_cluster.revisions(stack.uid):
        if revision.namespace == stack.namespace and (
            revision.owner == stack.uid or is_signed(revision, stack, hashes)
        ):
            await management_cluster.delete_revision(stack, revision)


def describe(revision: Revision, stack: StackObject) -> list[Any]:
    """Return the signed content. The hash represents the definition."""
    whose = [stack.uid, stack.namespace, stack.name]
    return [*whose, revision.name, revision.number, sorted(revision.kinds), revision.hash]


def explain(revision: Revision) -> str:
    """Explain why an unverified revision does not count and what to do."""
    name = f"controllerrevision.apps/{revision.name}"
    return (
        f"{name} (revision {revision.number}) was modified after this operator stored it: its signature, owner or "
        f"content is invalid. It is not used. Delete it, and set the definition that you want in the spec"
    )


def explain_all(revisions: Collection[Revision]) -> str:
    """Explain the same for several revisions; "" for none."""
    if len(revisions) == 1:
        return explain(next(iter(revisions)))
    refs = (f"{each.name} (revision {each.number})" for each in revisions)
    named = enumeration.enumerate_first(refs, count=len(revisions))
    return (
        f"{len(revisions)} ControllerRevisions were modified after this operator stored them, and are not used: {named}. "
        f"Delete them"
        if revisions
        else ""
    )


def merge_kinds(revisions: Iterable[Revision]) -> frozenset[str]:
    """Return every kind that any of the revisions may have applied."""
    return frozenset[str]().union(*(revision.kinds for revision in revisions))
