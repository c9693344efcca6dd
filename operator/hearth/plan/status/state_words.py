"""What a person should see of a Stack in a list besides its phase, in words: `paused, drifted`. Pure.

`kubectl get` shows them in one column, because a column of a CRD can show one field only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from hearth.plan.state import condition_types

REJECTED: Final = "definition rejected"
NOT_APPLIED: Final = "definition not applied"
"""It may be right: a source, a right, a revision or a cluster is missing."""
MISTAKEN: Final = frozenset({"InvalidTemplate", "SpecUnreadable"})
"""Reasons of a rejection for mistakes of the definition itself."""


def describe_rejection(reason: str) -> str:
    """Return the word for a definition that is not applied for that reason; "" without one."""
    if not reason:
        return ""
    return REJECTED if reason in MISTAKEN else NOT_APPLIED


def find_words(
    conditions: Collection[str], *, is_paused: bool, is_suspended: bool, is_rolled_back: bool, rejection: str
) -> Iterator[str]:
    """Yield the words.

    conditions: the types of those that are True; is_rolled_back: whether the target is another definition than that in
    the spec; rejection: the word for a definition in the spec that is not applied, "" if it is.
    """
    if rejection:
        yield rejection
    if is_paused:
        yield "paused"
    if is_suspended:
        yield "suspended"
    if is_rolled_back:
        yield "rolled back"
    for type_, traits in condition_types.TABLE.items():
        if traits.word and type_ in conditions:
            yield traits.word
