"""Which members a group has: the lowest indices that no removal policy names.

Pure. Must not know objects: an index stays the same while its member is replaced, fails or is marked.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hearth.model import limits, value_class
from hearth.model.errors import Mistake

APPEND, UPDATE = "Append", "Update"
"""Whether earlier removal policies stay in force beside the present ones."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GroupSize:
    """Size of a group, and the indices that none of its members may have."""

    replicas: int
    removed: tuple[int, ...] = ()
    """In ascending order."""

    def find_indices(self, *, surge: int = 0) -> tuple[int, ...]:
        """Return the indices of the members in ascending order. surge: members beyond the size."""
        removed = frozenset(self.removed)
        free = (index for index in itertools.count() if index not in removed)
        return tuple(itertools.islice(free, self.replicas + surge))


def find_removed(known: Iterable[int], listed: Iterable[int], *, mode: str) -> tuple[int, ...]:
    """Return the indices that are removed from now on, in ascending order.

    known: those removed before; listed: those of the removal policies now. A member that leaves the list keeps its index
    removed with `Append`, and may come back with `Update`.
    """
    return tuple(sorted({*known, *listed} if mode == APPEND else set(listed)))


def make_size(stated: Mapping[str, Any], *, known: Collection[int]) -> GroupSize:
    """Return the size of a group. stated: as `parse_indices` accepts it; known: the indices removed before."""
    listed = parse_indices(stated.get("removalPolicies"))
    return GroupSize(replicas=stated.get("replicas", 1), removed=find_removed(known, listed, mode=find_mode(stated)))


def parse_indices(policies: Any) -> list[int]:
    """Return the indices that removal policies name; entries of another form name none."""
    found: list[int] = []
    for policy in policies if isinstance(policies, list) else ():
        stated = policy.get("resources") if isinstance(policy, dict) else None
        names = stated if isinstance(stated, list) else ()
        found += [int(name) for name in names if isinstance(name, str) and is_index(name)]
    return found


def is_index(name: str) -> bool:
    """Return whether the text is an index as members have it: without a sign or leading zeros."""
    return name.isascii() and name.isdigit() and len(name) <= limits.INDEX_DIGITS and (name == "0" or name[0] != "0")


def find_mistakes(stated: Mapping[str, Any], *, known: Collection[int] = ()) -> Iterator[Mistake]:
    """Find what is wrong with the size of a group and its removal policies, with paths."""
    replicas = stated.get("replicas", 1)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        yield Mistake(path="spec.replicas", message="must be a whole number")
    elif not 0 <= replicas <= limits.GROUP_MEMBERS:
        message = (
            f"is {replicas}, but must be between 0 and {limits.GROUP_MEMBERS}; use several groups for more members"
        )
        yield Mistake(path="spec.replicas", message=message)
    for at, policy in enumerate(stated.get("removalPolicies") or ()):
        for position, name in enumerate(policy.get("resources") or ()):
            if not isinstance(name, str) or not is_index(name):
                message = f"must be the index of a member as text, for example '3', found {name!r}"
                yield Mistake(path=f"spec.removalPolicies[{at}].resources[{position}]", message=message)
    removed = find_removed(known, parse_indices(stated.get("removalPolicies")), mode=find_mode(stated))
    if len(removed) > limits.REMOVED_MEMBERS:
        message = (
            f"removes {len(removed)} indices together with earlier lists, but at most {limits.REMOVED_MEMBERS} are "
            f"remembered; set removalPoliciesMode: {UPDATE}, so that only the present list counts"
        )
        yield Mistake(path="spec.removalPolicies", message=message)


def find_mode(stated: Mapping[str, Any]) -> str:
    """Return the mode of the removal policies."""
    return stated.get("removalPoliciesMode") or APPEND
