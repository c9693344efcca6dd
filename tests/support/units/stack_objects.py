"""The Stack `a/shop` as the caches hold it, and the key of its hashes and signatures."""

from __future__ import annotations

import dataclasses
from typing import Any

from hearth.engine.cluster_objects import StackObject
from hearth.plan.ownership.keyed_hash import KeyedHasher

HASHES = KeyedHasher(b"k" * 32)


def make_stack(**changes: Any) -> StackObject:
    """The Stack `a/shop` with UID `u` and no spec, except for these changes."""
    stack = StackObject(
        name="shop",
        namespace="a",
        uid="u",
        generation=1,
        resource_version=7,
        deleting=False,
        finalizers=(),
        annotations={},
        packed_spec=b"{}",
        packed_status=b"{}",
    )
    return dataclasses.replace(stack, **changes)
