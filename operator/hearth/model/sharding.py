"""How Stacks are divided among processes: by a hash of their UIDs, in buckets that stay the same however many share them.

A child carries its bucket as a label, so that a process watches its own share on the server; another number of processes
only asks for other buckets.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

BUCKETS = 256
"""Fixed for ever, as it is written on children: no more processes can share the work."""
OFFSET = 0xCBF29CE484222325
PRIME = 0x100000001B3
"""Of FNV-1a with 64 bits, the hash by which API servers divide watches themselves: our buckets are ranges of theirs."""
WORD = (1 << 64) - 1
CACHED = 4096


@functools.lru_cache(maxsize=CACHED)
def bucket_of(stack_uid: str) -> int:
    """The bucket of a Stack, from 0 on."""
    hashed = OFFSET
    for byte in stack_uid.encode():
        hashed = ((hashed ^ byte) * PRIME) & WORD
    return hashed * BUCKETS >> 64


def label_of(stack_uid: str) -> str:
    """The value of the label with the bucket."""
    return str(bucket_of(stack_uid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of all Stacks that one process works on."""

    index: int = 0
    """From 0 on."""
    count: int = 1
    """Among how many the Stacks are divided; at most `BUCKETS`."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of them."""
        return self.count == 1

    def has(self, uid: str) -> bool:
        """Whether what has this UID is part of it."""
        return self.is_whole or bucket_of(uid) * self.count // BUCKETS == self.index

    def list_buckets(self) -> list[int]:
        """Those that it is made of, in a row."""
        return [bucket for bucket in range(BUCKETS) if bucket * self.count // BUCKETS == self.index]

    def overlaps(self, other: Share) -> bool:
        """Whether the two have a bucket in common."""
        return bool(set(self.list_buckets()) & set(other.list_buckets()))

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


WHOLE = Share()
