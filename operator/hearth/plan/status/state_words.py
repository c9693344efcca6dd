"""What a person should see of a Stack in a list besides its phase, in words: `paused, drifted`. Pure.

`kubectl get` shows them in one column, because a column of a CRD can show one field only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

REJECTED: Final = "definition rejected"
CONDITIONS: Final = (
    ("Stopped", "stopped"),
    ("Drifted", "drifted"),
    ("DriftConflict", "drift conflict"),
    ("WritesDelayed", "writes delayed"),
    ("Unhealthy", "unhealthy"),
    ("DeletionBlocked", "deletion blocked"),
    ("CheckPending", "check pending"),
    ("ClusterUnreachable", "cluster unreachable"),
    ("RevisionTampered", "tampered"),
    ("SuspendRecordInvalid", "suspend record invalid"),
    ("InternalError", "internal error"),
)
"""Conditions that a person should see, and their words."""


def find_words(
    conditions: Collection[str], *, is_paused: bool, is_suspended: bool, is_rolled_back: bool, is_rejected: bool
) -> Iterator[str]:
    """Yield the words.

    conditions: the types of those that are True; is_rolled_back: whether the target is another definition than that in
    the spec; is_rejected: whether the definition in the spec has mistakes, so that the active one stays.
    """
    if is_rejected:
        yield REJECTED
    if is_paused:
        yield "paused"
    if is_suspended:
        yield "suspended"
    if is_rolled_back:
        yield "rolled back"
    for type_, word in CONDITIONS:
        if type_ in conditions:
            yield word
