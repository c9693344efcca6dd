"""Distributes Stacks among processes: a hash of the UID selects a bucket, and each process serves consecutive buckets.

The bucket is a label of each child, so that a process watches only its own share. It does not depend on the number of
processes. Within a share, a separate process can serve the Stacks of other clusters.
"""

from __future__ import annotations

import enum
import functools

from hearth.model import value_class

BUCKETS = 256
"""Number of buckets, and maximum number of shards. It never changes, because labels of children depend on it."""
OFFSET = 0xCBF29CE484222325
PRIME = 0x100000001B3
"""The prime of 64-bit FNV-1a, the hash that API servers use to shard watches. Hearth's buckets are ranges of these
shards.
"""
WORD = (1 << 64) - 1
CACHED = 4096


class Place(enum.Enum):
    """The cluster with the objects of the Stacks that one process serves."""

    ANYWHERE = "anywhere"
    HERE = "here"
    """In the cluster of the Stacks themselves."""
    ELSEWHERE = "elsewhere"
    """In other clusters: the Stacks with `spec.kubeConfig`."""


@functools.lru_cache(maxsize=CACHED)
def bucket_of(stack_uid: str) -> int:
    """Return the bucket of a Stack, from 0."""
    hashed = OFFSET
    for byte in stack_uid.encode():
        hashed = ((hashed ^ byte) * PRIME) & WORD
    return hashed * BUCKETS >> 64


def label_of(stack_uid: str) -> str:
    """Return the value of the bucket label."""
    return str(bucket_of(stack_uid))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of all Stacks that one process works on."""

    index: int = 0
    """From 0."""
    count: int = 1
    """The number of shards; at most `BUCKETS`."""
    place: Place = Place.ANYWHERE
    """The Stacks of the shard that it contains."""

    @property
    def has_all_buckets(self) -> bool:
        """Return whether there is only one shard."""
        return self.count == 1

    @property
    def is_whole(self) -> bool:
        """Return whether it contains all Stacks."""
        return self.has_all_buckets and self.place is Place.ANYWHERE

    def has_bucket(self, uid: str) -> bool:
        """Return whether the object with this UID is in its buckets."""
        return self.has_all_buckets or bucket_of(uid) * self.count // BUCKETS == self.index

    def has_stack(self, uid: str, *, is_remote: bool) -> bool:
        """Return whether it contains the Stack with this UID. is_remote: whether its objects are in another cluster."""
        other = Place.HERE if is_remote else Place.ELSEWHERE
        return self.place is not other and self.has_bucket(uid)

    @property
    def leads_all(self) -> bool:
        """Return whether no other process leads a StackDefinition."""
        return self.has_all_buckets and self.place is not Place.ELSEWHERE

    def leads(self, uid: str) -> bool:
        """Whether this process, and no other, creates the kind of the StackDefinition with this UID and reports on it."""
        return self.place is not Place.ELSEWHERE and self.has_bucket(uid)

    def has_request(self, uid: str) -> bool:
        """Return whether it contains the request (a HealthMark, a StackSnapshot) with this UID about an unknown Stack."""
        return self.has_stack(uid, is_remote=False)

    def list_buckets(self) -> list[int]:
        """Return its consecutive buckets."""
        return [bucket for bucket in range(BUCKETS) if bucket * self.count // BUCKETS == self.index]

    def overlaps(self, other: Share) -> bool:
        """Return whether the two have a bucket in common."""
        return bool(set(self.list_buckets()) & set(other.list_buckets()))

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


WHOLE = Share()
