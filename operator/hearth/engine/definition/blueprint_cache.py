"""Blueprints that Stacks have in common: what is compiled for one of them serves all others of the same definition.

Kept for as long as any Stack uses it, so that it takes no memory of its own. Must not know how blueprints are made.
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from hearth.template.blueprint import Blueprint, Definition, SharingScope, StackIdentity

Key: TypeAlias = tuple[bytes, str | None]
"""A definition's digest, and the namespace where the blueprint holds in one only."""
DIGEST_SIZE = 16
"""Bytes; a chance equality would give a Stack another one's objects, and is out of the question at 128 bits."""


@dataclass(slots=True)
class BlueprintCache:
    """Those in use, of one cluster."""

    _known: weakref.WeakValueDictionary[Key, Blueprint] = field(default_factory=weakref.WeakValueDictionary)

    def find(self, digest: bytes, stack: StackIdentity) -> Blueprint | None:
        """The blueprint of that definition for the Stack, if another one has it."""
        if not digest:
            return None
        found = self._known.get((digest, None))
        return found if found is not None else self._known.get((digest, stack.namespace))

    def keep(self, digest: bytes, stack: StackIdentity, blueprint: Blueprint) -> None:
        """Let others have what was compiled for the Stack, as far as it holds for them."""
        if digest and blueprint.reach is not SharingScope.ONE:
            self._known[digest, None if blueprint.reach is SharingScope.ANY else stack.namespace] = blueprint


def find_digest(definition: Definition, *, adopts: bool, generation: int) -> bytes:
    """The same only where the blueprint is the same too, but for the Stack's identity; empty where that cannot be told.

    adopts: what the Stack says of adoption; generation: of the kinds. It stays in this process, so it needs no key.
    """
    parts = (
        *(definition.template, definition.parameters, definition.origins),
        *(definition.template_path, definition.parameters_path, adopts, generation),
    )
    try:
        # In the order in which they stand: another order is another order of the resources.
        written = orjson.dumps(parts)
    except TypeError:
        return b""
    return hashlib.blake2b(written, digest_size=DIGEST_SIZE).digest()
