"""The stored revisions of one Stack, sorted by whether this operator wrote them.

Knows the signature over a revision's metadata; the definition itself is checked by its hash when it is read. Must not
know how revisions are stored, nor what one is used for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from hearth.engine.ports import ManagementCluster, Revision, StackObject
from hearth.model import limits
from hearth.plan.ownership.keyed_hash import HashFunction

PURPOSE = "revision"
NAMED = 5
"""Revisions that one message names; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSet:
    """The revisions that carry one Stack's label, in its own namespace."""

    verified: tuple[Revision, ...] = ()
    """Signed by this operator for this Stack, by rising number. Only these count."""
    tampered: tuple[Revision, ...] = ()
    """Neither signed nor stored by an earlier version: changed or made by another writer."""
    unsigned: tuple[Revision, ...] = ()
    """Stored by a version that did not sign, or under another key."""

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind that any of them may have applied. An unverified revision can only add kinds to look at."""
        unverified = (each for each in (*self.tampered, *self.unsigned) if len(each.kinds) <= limits.REVISION_KINDS)
        hints = frozenset[str]().union(*(each.kinds for each in list(unverified)[: limits.REVISION_HINTS]))
        return merge_kinds(self.verified) | hints

    @property
    def last_number(self) -> int:
        """The highest number that is taken, 0 for none. An implausible number of an unverified revision is ignored."""
        numbers = [each.number for each in self.verified]
        hints = (each.number for each in (*self.tampered, *self.unsigned))
        return max([0, *numbers, *(number for number in hints if number <= limits.HINTED_REVISION)])

    def find(self, number: int) -> Revision | None:
        """The verified revision of that number."""
        return next((each for each in self.verified if each.number == number), None)

    def find_unverified(self, number: int) -> Revision | None:
        """The revision of that number that does not count, where no verified one has it."""
        if number <= 0 or self.find(number) is not None:
            return None
        return next((each for each in (*self.tampered, *self.unsigned) if each.number == number), None)

    def knows_all_kinds(self, needed: Collection[int]) -> bool:
        """Whether `kinds` is complete: nothing was tampered with, and no revision in `needed` is missing.

        Each revision lists the kinds of all revisions before it.
        """
        numbers = {each.number for each in self.verified}
        return bool(numbers) and not self.tampered and numbers.issuperset(needed)


def load(home: ManagementCluster, hashes: HashFunction, stack: StackObject) -> RevisionSet:
    """All revisions of a Stack. One in another namespace is ignored: no revision of the Stack can be there."""
    verified: list[Revision] = []
    tampered: list[Revision] = []
    unsigned: list[Revision] = []
    for revision in home.revisions(stack.uid):
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
    """The revision with this operator's signature."""
    return dataclasses.replace(revision, signature=hashes.sign(PURPOSE, describe(revision, stack)))


def is_verified(revision: Revision, stack: StackObject, hashes: HashFunction) -> bool:
    """Whether this operator stored the revision for that Stack, with this number, these kinds and this definition."""
    is_owned = revision.owner == stack.uid and revision.namespace == stack.namespace
    # The comparison of the prefix spares what is obviously not signed the cost of a digest.
    is_signed = is_owned and hashes.is_comparable(revision.signature)
    return is_signed and hashes.is_signed(PURPOSE, describe(revision, stack), revision.signature)


def describe(revision: Revision, stack: StackObject) -> list[Any]:
    """What is signed. The hash stands for the definition."""
    whose = [stack.uid, stack.namespace, stack.name]
    return [*whose, revision.name, revision.number, sorted(revision.kinds), revision.hash]


def explain(revision: Revision) -> str:
    """Why a revision that is not verified does not count, and what to do."""
    name = f"controllerrevision.apps/{revision.name}"
    return (
        f"{name} (revision {revision.number}) is not as this operator stored it: its signature, owner or content is not "
        f"valid. It is not used. Delete it, and put the definition that you want into the spec"
    )


def explain_all(revisions: Collection[Revision]) -> str:
    """The same for several, "" for none."""
    if len(revisions) == 1:
        return explain(next(iter(revisions)))
    named = ", ".join(f"{each.name} (revision {each.number})" for each in list(revisions)[:NAMED])
    more = f" and {len(revisions) - NAMED} more" if len(revisions) > NAMED else ""
    return (
        f"{len(revisions)} ControllerRevisions are not as this operator stored them, and are not used: {named}{more}. "
        f"Delete them"
        if revisions
        else ""
    )


def merge_kinds(revisions: Iterable[Revision]) -> frozenset[str]:
    """Every kind that any of them may have applied."""
    return frozenset[str]().union(*(revision.kinds for revision in revisions))
