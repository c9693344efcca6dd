"""Names of the members of collections and groups, and the indices of a group's members.

`workers[a]` is the member with the key `a` of the collection `workers`, a resource with `forEach`. `workers[*]` means
all members. A group uses the lowest indices that no removal policy names. A member keeps its index while it is
replaced, fails or is marked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hearth.model import limits, object_fields, value_class
from hearth.model.errors import Mistake

KEY = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
"""A key becomes part of object names and label values, which begin and end with a letter or digit."""
KEY_LENGTH = 40
EVERY = "*"
"""Stands for every key."""
GROUP_MEMBER = "member"
"""The resource that represents the members of a ResourceGroup. A member's name is its index: `3`."""
APPEND, UPDATE = "Append", "Update"
"""Modes of removal policies: whether earlier policies remain in force in addition to the current ones."""


def name_member(collection: str, key: str) -> str:
    """Return the resource name of a member: `workers[a]`."""
    return f"{collection}[{key}]"


def name_all(collection: str) -> str:
    """Return the name of all members together: `workers[*]`."""
    return name_member(collection, EVERY)


def is_all(name: str) -> bool:
    """Whether the name means all members of a collection."""
    return name.endswith("[*]")


def is_member(name: str) -> bool:
    """Return whether the name refers to one or all members of a collection."""
    return name.endswith("]") or is_group_member(name)


def is_group_member(name: str) -> bool:
    """Return whether the name refers to a member of a group. No other name starts with a digit."""
    return name[:1].isdigit()


def root_of(name: str) -> str:
    """Return the name in the template: `workers` for `workers[a]`, and `web` for `web`."""
    return GROUP_MEMBER if is_group_member(name) else name.partition("[")[0]


def key_of(name: str) -> str:
    """Return the key of a member, "" for any other resource."""
    return name if is_group_member(name) else name.partition("[")[2].removesuffix("]")


def is_among(name: str, names: Collection[str]) -> bool:
    """Whether a resource is in `names`, or is a member of a collection that `names` contains as a whole."""
    return name in names or (is_member(name) and name_all(root_of(name)) in names)


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

    known: indices removed before; listed: indices in the current removal policies. When a member is no longer listed,
    its index stays removed with `Append`, and may return with `Update`.
    """
    return tuple(sorted({*known, *listed} if mode == APPEND else set(listed)))


def make_size(stated: Mapping[str, Any], *, known: Collection[int]) -> GroupSize:
    """Return the size of a group. stated: the size and policies, in the form that `parse_removed` accepts; known: the
    indices removed before.
    """
    return GroupSize(replicas=stated.get("replicas", 1), removed=find_all_removed(stated, known))


def parse_removed(policies: Any) -> list[int]:
    """Return the indices that removal policies list. Entries of another form are ignored."""
    stated = (name for policy in object_fields.entries(policies) for name in object_fields.texts(policy, "resources"))
    return [int(name) for name in stated if is_index(name)]


def is_index(name: str) -> bool:
    """Return whether the text is a valid index: without a sign or leading zeros."""
    return name.isascii() and name.isdigit() and len(name) <= limits.INDEX_DIGITS and (name == "0" or name[0] != "0")


def find_size_mistakes(stated: Mapping[str, Any], *, known: Collection[int] = ()) -> Iterator[Mistake]:
    """Find mistakes in the size of a group and its removal policies, with paths."""
    replicas = stated.get("replicas", 1)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        yield Mistake(path="spec.replicas", message="must be a whole number")
    elif not 0 <= replicas <= limits.GROUP_MEMBERS:
        message = (
            f"is {replicas}, but must be between 0 and {limits.GROUP_MEMBERS}; use several groups for more members"
        )
        yield Mistake(path="spec.replicas", message=message)
    for at, policy in enumerate(object_fields.elements(stated, "removalPolicies")):
        for position, name in enumerate(object_fields.elements(policy, "resources")):
            if not isinstance(name, str) or not is_index(name):
                message = f"must be the index of a member as text, for example '3', found {name!r}"
                yield Mistake(path=f"spec.removalPolicies[{at}].resources[{position}]", message=message)
    removed = find_all_removed(stated, known)
    if len(removed) > limits.REMOVED_MEMBERS:
        message = (
            f"removes {len(removed)} indices together with earlier lists, but at most {limits.REMOVED_MEMBERS} are "
            f"remembered; set removalPoliciesMode: {UPDATE}, so that only the present list counts"
        )
        yield Mistake(path="spec.removalPolicies", message=message)


def find_all_removed(stated: Mapping[str, Any], known: Iterable[int]) -> tuple[int, ...]:
    """Return the indices that the removal policies of a group remove. known: those removed before."""
    listed = parse_removed(stated.get("removalPolicies"))
    return find_removed(known, listed, mode=stated.get("removalPoliciesMode") or APPEND)
