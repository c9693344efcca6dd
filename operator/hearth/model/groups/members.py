"""The names of a collection's members: `workers[a]` is the member of `workers` with the key `a`, `workers[*]` all of them.

A collection is a resource with `forEach`. Knows only names. Must not know templates or objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection

KEY = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
"""A key becomes part of object names and label values, which begin and end with a letter or digit."""
KEY_LENGTH = 40
EVERY = "*"
"""Stands for every key."""
GROUP_MEMBER = "member"
"""The resource that the members of a ResourceGroup stand for. They are named by their index alone: `3`."""


def name_member(collection: str, key: str) -> str:
    """Return the resource name of a member: `workers[a]`."""
    return f"{collection}[{key}]"


def name_all(collection: str) -> str:
    """Return the name that stands for all members: `workers[*]`."""
    return name_member(collection, EVERY)


def is_all(name: str) -> bool:
    """Return whether the name stands for all members of a collection."""
    return name.endswith("[*]")


def is_member(name: str) -> bool:
    """Return whether the name is of one member, or of all, of a collection."""
    return name.endswith("]") or is_group_member(name)


def is_group_member(name: str) -> bool:
    """Return whether the name is of a member of a group. No other name starts with a digit."""
    return name[:1].isdigit()


def root_of(name: str) -> str:
    """Return the name in the template: `workers` for `workers[a]`, and `web` for `web`."""
    return GROUP_MEMBER if is_group_member(name) else name.partition("[")[0]


def key_of(name: str) -> str:
    """Return the key of a member, "" for any other resource."""
    return name if is_group_member(name) else name.partition("[")[2].removesuffix("]")


def is_among(name: str, names: Collection[str]) -> bool:
    """Return whether a resource is one of the names, or a member of a collection that `names` states as a whole."""
    return name in names or (is_member(name) and name_all(root_of(name)) in names)
